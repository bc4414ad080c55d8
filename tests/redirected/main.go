// Idempotent and transactional producers of franz-go. It reads lines `open CASE servers TOPIC [transactional ID]` and
// `send CASE VALUE`, and prints `CASE VALUE` with the offset or the error; with a transactional ID each value is a transaction.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 30 * time.Second

type producer struct {
	client        *kgo.Client
	topic         string
	transactional bool
}

func open(words []string) (*producer, error) {
	options := []kgo.Opt{kgo.SeedBrokers(strings.Split(words[2], ",")...), kgo.RecordPartitioner(kgo.ManualPartitioner())}
	if len(words) > 4 {
		options = append(options, kgo.TransactionalID(words[4]))
	}
	client, err := kgo.NewClient(options...)
	return &producer{client, words[3], len(words) > 4}, err
}

func (p *producer) send(value string) (int64, error) {
	limited, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if p.transactional {
		if err := p.client.BeginTransaction(); err != nil {
			return 0, err
		}
	}
	sent, err := p.client.ProduceSync(limited, &kgo.Record{Topic: p.topic, Value: []byte(value)}).First()
	if p.transactional {
		end := p.client.EndTransaction(limited, kgo.TransactionEndTry(err == nil))
		if err == nil {
			err = end
		}
	}
	if err != nil {
		return 0, err
	}
	return sent.Offset, nil
}

func named(err error) string {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Message
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, kgo.ErrRecordTimeout) {
		return "timeout"
	}
	return strings.ReplaceAll(err.Error(), " ", "-")
}

func work(lines <-chan []string) {
	var mine *producer
	for words := range lines {
		value, offset, err := words[0], int64(0), error(nil)
		if value == "open" {
			mine, err = open(words)
		} else {
			value = words[2]
			offset, err = mine.send(value)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, words[1], value, err)
			fmt.Println(words[1], value, named(err))
		} else {
			fmt.Println(words[1], value, offset)
		}
	}
}

func main() {
	cases := map[string]chan []string{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), " ")
		if words[0] == "open" {
			cases[words[1]] = make(chan []string, 100)
			go work(cases[words[1]])
		}
		cases[words[1]] <- words
	}
}
