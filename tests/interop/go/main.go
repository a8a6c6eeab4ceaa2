// Runs the checks named on the command line, or all, several at a time, with the Go client.
//
// Reads NAMESRV_ADDR, BROKER_ADDR, INTEROP_DRIVER (the name to report under) and INTEROP_RUN
// (what makes this run's topics and groups unique). Checks whose name ends in "-after" need a
// broker restart after "all", or another driver's part, and have to be named.
package main

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const atATime = 8

type check struct {
	name string
	run  func(*scene)
}

// The slow ones first: the rest runs beside them.
var checks = []check{
	{"transactions", transactions},
	{"retry-dlq", retryDLQ},
	{"join-leave", func(s *scene) { joinAndLeave(s, false) }},
	{"join-leave-orderly", func(s *scene) { joinAndLeave(s, true) }},
	{"resume-client", resumeClient},
	{"resume-broker-before", func(s *scene) { consumeFirstHalf(s) }},
	{"resume-broker-after", consumeSecondHalf},
	{"broadcast", broadcast},
	{"delayed", delayed},
	{"auto-create", autoCreate},
	{"send", send},
	{"async", async},
	{"oneway", oneway},
	{"batch", batch},
	{"ordered", ordered},
	{"big", big},
	{"push", push},
	{"orderly", orderly},
	{"tags", tags},
	{"sql", sql},
	{"pull", pull},
	{"poll", poll},
	{"query-time", queryTime},
	{"across-send-after", acrossSend},
	{"across-refuse-after", acrossRefuse},
	{"across-consume-after", acrossConsume},
}

func main() {
	rlog.SetLogLevel("error")
	var planned []check
	wanted := os.Args[1:]
	for _, c := range checks {
		if chosen(c.name, wanted) {
			planned = append(planned, c)
		}
	}
	names := make([]string, len(planned))
	for i, c := range planned {
		names[i] = c.name
	}
	fmt.Println("plan", strings.Join(names, " "))

	var running sync.WaitGroup
	slots := make(chan struct{}, atATime)
	for _, c := range planned {
		running.Add(1)
		slots <- struct{}{}
		go func() {
			defer running.Done()
			runOne(c)
			<-slots
		}()
	}
	running.Wait()
}

func chosen(name string, wanted []string) bool {
	for _, w := range wanted {
		if w == name {
			return true
		}
	}
	all := len(wanted) == 0 || wanted[0] == "all"
	return all && !strings.HasSuffix(name, "-after")
}

// A check passes unless it panics, which is how expect and await complain.
func runOne(c check) {
	driver := os.Getenv("INTEROP_DRIVER")
	s := newScene(driver, c.name)
	problem := func() (problem any) {
		defer func() { problem = recover() }()
		c.run(s)
		return nil
	}()
	s.close()
	if problem == nil {
		fmt.Printf("ok %s %s\n", driver, c.name)
	} else {
		fmt.Printf("FAIL %s %s: %s\n", driver, c.name, strings.Join(strings.Fields(fmt.Sprint(problem)), " "))
	}
}
