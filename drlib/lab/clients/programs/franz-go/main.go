// A producer or consumer as people write them in Go with franz-go: it knows one address and follows no pointer. It writes what it
// experienced as a history. Arguments: produce|consume, name, alias, bootstrap servers, topics, history, records per second, first
// number, and seconds without an acknowledged or processed record after which the program begins again, as under a service manager:
// its client is closed first, so that its member leaves the group.
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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const keys = 7
const exitTime = 8 * time.Second // that a client may take to close before the program begins again without that

type History struct {
	lock   sync.Mutex
	file   *os.File
	made   atomic.Int64 // when something was acknowledged or processed last
	number atomic.Int64 // that is sent next
	again  atomic.Bool  // to begin again once the client is closed
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
	terminated, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ended, end := context.WithCancel(terminated)
	defer end()
	first, err := strconv.Atoi(os.Args[8])
	if err != nil {
		panic(err)
	}
	silent, err := strconv.ParseFloat(os.Args[9], 64)
	if err != nil {
		panic(err)
	}
	starts, err := os.OpenFile(strings.TrimSuffix(os.Args[6], ".jsonl")+".starts", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(starts, nowMs())
	starts.Close()
	history.made.Store(nowMs() + int64(1000*silent)) // the first record may take twice as long
	history.number.Store(int64(first))
	go restartWhenSilent(terminated, end, history, int64(1000*silent))
	if os.Args[1] == "produce" {
		perSecond, err := strconv.ParseFloat(os.Args[7], 64)
		if err != nil {
			panic(err)
		}
		produce(ended, history, servers, name, alias, topics[0], first, perSecond)
	} else {
		consume(ended, history, servers, name, alias, topics)
	}
	if history.again.Load() && terminated.Err() == nil {
		beginAgain(history)
	}
	history.line("E")
}

func restartWhenSilent(terminated context.Context, end func(), history *History, silentMs int64) {
	for nowMs()-history.made.Load() <= silentMs {
		time.Sleep(200 * time.Millisecond)
	}
	history.again.Store(true)
	end()
	time.Sleep(exitTime) // main begins again as soon as the client is closed
	if terminated.Err() == nil {
		beginAgain(history)
	}
}

func beginAgain(history *History) {
	history.lock.Lock() // for good: the history's last line is whole
	os.Args[8] = strconv.FormatInt(history.number.Load()+1, 10)
	panic(syscall.Exec(os.Args[0], os.Args, os.Environ()))
}

func produce(ended context.Context, history *History, servers kgo.Opt, name, alias, topic string, first int, perSecond float64) {
	client, err := kgo.NewClient(servers)
	if err != nil {
		panic(err)
	}
	tick := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
	for number := first; ended.Err() == nil; number++ {
		history.number.Store(int64(number))
		id, key, count, sent := fmt.Sprintf("%s-%d", name, number), fmt.Sprintf("%s-k%d", name, number%keys), number/keys, nowMs()
		record := &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(id), Headers: []kgo.RecordHeader{
			{Key: "id", Value: []byte(id)}, {Key: "n", Value: []byte(strconv.Itoa(count))}}}
		client.Produce(context.Background(), record, func(at *kgo.Record, err error) {
			if err == nil {
				history.made.Store(nowMs())
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
	if client.Flush(limited) != nil {
		limited, cancel = context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = client.AbortBufferedRecords(limited) // what has no answer fails, and is in doubt
	}
	client.Close()
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
			history.made.Store(nowMs())
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
