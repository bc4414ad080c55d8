// A producer or consumer as people write them in Go with franz-go: it knows one address and follows no pointer. It writes what it
// experienced as a history. Arguments: produce|consume, name, alias, bootstrap servers, topics, history, records per second.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const keys = 7

type History struct {
	lock sync.Mutex
	file *os.File
}

func (h *History) line(fields ...any) {
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	h.lock.Lock()
	defer h.lock.Unlock()
	if _, err := h.file.Write(append(text, '\n')); err != nil {
		panic(err)
	}
}

func nowMs() int64 { return time.Now().UnixMilli() }

func main() {
	name, alias, topics := os.Args[2], os.Args[3], strings.Split(os.Args[5], ",")
	servers := kgo.SeedBrokers(strings.Split(os.Args[4], ",")...)
	file, err := os.OpenFile(os.Args[6], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	history := &History{file: file}
	ended, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if os.Args[1] == "produce" {
		perSecond, err := strconv.ParseFloat(os.Args[7], 64)
		if err != nil {
			panic(err)
		}
		produce(ended, history, servers, name, alias, topics[0], perSecond)
	} else {
		consume(ended, history, servers, name, alias, topics)
	}
	history.line("E")
}

func produce(ended context.Context, history *History, servers kgo.Opt, name, alias, topic string, perSecond float64) {
	client, err := kgo.NewClient(servers)
	if err != nil {
		panic(err)
	}
	tick := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
	for number := 0; ended.Err() == nil; number++ {
		id, key, count, sent := fmt.Sprintf("%s-%d", name, number), fmt.Sprintf("%s-k%d", name, number%keys), number/keys, nowMs()
		record := &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(id), Headers: []kgo.RecordHeader{
			{Key: "id", Value: []byte(id)}, {Key: "n", Value: []byte(strconv.Itoa(count))}}}
		client.Produce(context.Background(), record, func(at *kgo.Record, err error) {
			if err == nil {
				history.line("P", id, key, count, alias, topic, at.Partition, at.Offset, sent, nowMs(), "acked", nil)
			} else {
				history.line("P", id, key, count, alias, topic, -1, -1, sent, nowMs(), "in-doubt", nil)
			}
		})
		select {
		case <-tick.C:
		case <-ended.Done():
		}
	}
	limited, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = client.Flush(limited)
	client.Close() // what has no answer fails, and is in doubt
}

func consume(ended context.Context, history *History, servers kgo.Opt, name, alias string, topics []string) {
	client, err := kgo.NewClient(servers, kgo.ConsumerGroup(name), kgo.ConsumeTopics(topics...), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		panic(err)
	}
	for ended.Err() == nil {
		fetches := client.PollFetches(ended)
		fetches.EachError(func(topic string, partition int32, err error) {
			if ended.Err() == nil {
				fmt.Printf("not read: %s/%d: %v\n", topic, partition, err)
			}
		})
		fetches.EachRecord(func(record *kgo.Record) {
			headers := map[string]string{}
			for _, header := range record.Headers {
				headers[header.Key] = string(header.Value)
			}
			n, _ := strconv.Atoi(headers["n"])
			history.line("C", name, alias, record.Topic, record.Partition, record.Offset, headers["id"], string(record.Key), n, nowMs())
		})
		if fetches.NumRecords() > 0 {
			if err := client.CommitUncommittedOffsets(ended); err != nil {
				fmt.Printf("not committed: %v\n", err)
			}
		}
	}
	client.Close()
}
