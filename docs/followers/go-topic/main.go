// Arguments: the application, then the bootstrap servers of each cluster (host:port,host:port).
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type Pointer struct {
	Version    *int64  `json:"version"` // nil: not a pointer
	Active     string  `json:"active"`
	Bootstrap  string  `json:"bootstrap"`
	Hold       bool    `json:"hold"`
	HoldLimitS float64 `json:"hold_limit_s"` // 0: no limit
}

func main() {
	read := make(chan *kgo.Record)
	for _, servers := range os.Args[2:] {
		client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(servers, ",")...), // and TLS, SASL as usual
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"drlib.active.internal": {0: kgo.NewOffset().AtStart()}}),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		if err != nil {
			panic(err)
		}
		go func() {
			for { // a cluster that is down returns nothing, and is tried again
				client.PollFetches(context.Background()).EachRecord(func(record *kgo.Record) { read <- record })
			}
		}()
	}
	version, now, newest, since := int64(-1), "", Pointer{}, time.Time{}
	for {
		select {
		case record := <-read:
			var pointer Pointer
			mine := string(record.Key) == "*" || string(record.Key) == os.Args[1]
			if mine && json.Unmarshal(record.Value, &pointer) == nil && pointer.Version != nil && *pointer.Version > version {
				version, newest, since = *pointer.Version, pointer, time.Now()
			}
		case <-time.After(time.Second): // nothing came for a second: everything that is there was read
			limit := time.Duration(newest.HoldLimitS * float64(time.Second))
			next := "use " + newest.Active + " " + newest.Bootstrap
			if newest.Hold && (limit == 0 || time.Since(since) < limit) {
				next = "stop at " + newest.Active + " " + newest.Bootstrap
			}
			if version >= 0 && next != now {
				fmt.Println(next) // here the application closes or opens its clients
			}
			if version >= 0 {
				now = next
			}
		}
	}
}
