// Arguments: the path of the pointer file. Standard library only.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

type Pointer struct {
	Version    *int64  `json:"version"` // nil: not a pointer
	Active     string  `json:"active"`
	Bootstrap  string  `json:"bootstrap"`
	Hold       bool    `json:"hold"`
	HoldLimitS float64 `json:"hold_limit_s"` // 0: no limit
}

func main() {
	version, now, newest, since := int64(-1), "", Pointer{}, time.Time{}
	for ; ; time.Sleep(200 * time.Millisecond) {
		var read Pointer
		content, err := os.ReadFile(os.Args[1]) // replaced by a rename, so it is never half written
		if err == nil && json.Unmarshal(content, &read) == nil && read.Version != nil && *read.Version > version {
			version, newest, since = *read.Version, read, time.Now()
		} // a missing, broken or older file: stay where we are
		if version < 0 {
			continue
		}
		limit := time.Duration(newest.HoldLimitS * float64(time.Second))
		next := "use " + newest.Active + " " + newest.Bootstrap
		if newest.Hold && (limit == 0 || time.Since(since) < limit) {
			next = "stop at " + newest.Active + " " + newest.Bootstrap
		}
		if next != now {
			fmt.Println(next) // here the application closes or opens its clients
		}
		now = next
	}
}
