package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// A refused message comes again twice, then lies in the dead-letter topic; its neighbour is done.
func retryDLQ(s *scene) {
	const retries = 2
	topic := s.topic()
	a := s.admin()
	// A first consumer makes the group's retry topic: this client looks for new routes only
	// every 30 s, so the next consumer should find it there.
	var nothing inbox
	must(s.consume(topic, "*", nothing.take).Shutdown())
	s.awaitRoute(a, "%RETRY%"+s.group())

	var in inbox
	s.consume(topic, "*", func(_ context.Context, batch ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		in.add(batch...)
		if string(batch[0].Body) == "bad" {
			return consumer.ConsumeRetryLater, nil
		}
		return consumer.ConsumeSuccess, nil
	}, consumer.WithMaxReconsumeTimes(retries))
	p := s.producer()
	bad := sent(p, message(topic, "bad").WithTag("t").WithKeys([]string{"k"}))
	sent(p, message(topic, "good"))
	dead := "%DLQ%" + s.group()
	s.awaitRoute(a, dead)
	var grave inbox
	s.consumeAs(s.group()+"_dead", dead, "*", grave.take)
	grave.awaitExactly([]string{"bad"})

	expectEqual(1, in.count("good"), "deliveries of the good message")
	expectEqual(1+retries, in.count("bad"), "deliveries of the bad message")
	times := int32(0)
	for _, got := range in.all() {
		if string(got.Body) == "bad" {
			expectEqual(times, got.ReconsumeTimes, "reconsume times")
			expectEqual(bad.MsgID, got.MsgId, "message id")
			expectEqual("t", got.GetTags(), "tag")
			times++
		}
	}
	got := grave.all()[0]
	expectEqual(bad.MsgID, got.MsgId, "message id of the dead message")
	expectEqual(topic, got.GetProperty(primitive.PropertyRetryTopic), "RETRY_TOPIC")
	expectEqual(bad.OffsetMsgID, got.GetProperty(primitive.PropertyOriginMessageId), "ORIGIN_MESSAGE_ID")
}

// A second consumer takes over half of the queues and gives them back when it leaves. Messages
// flow all the time and none is lost; a queue that changes hands may repeat some.
func joinAndLeave(s *scene, orderly bool) {
	topic := s.topic()
	p := s.producer(manual())
	var one, two inbox
	var all []string
	// Sends rounds of a message per queue until one round arrived where it should.
	sendUntil := func(phase string, settled func(round string) bool) {
		round := 0
		await("the queues to be shared: "+phase, func() bool {
			name := fmt.Sprintf("%s%d-", phase, round)
			round++
			for queue := range queues {
				body := fmt.Sprintf("%s%d", name, queue)
				all = append(all, body)
				sent(p, toQueue(message(topic, body), topic, queue))
			}
			return within(25, func() bool { return settled(name) })
		})
	}

	order := consumer.WithConsumerOrder(orderly)
	s.consume(topic, "*", one.take, order)
	sendUntil("alone", func(round string) bool { return one.queues(round) == queues })
	second := s.consume(topic, "*", two.take, order)
	sendUntil("both", func(round string) bool { return one.queues(round) == 2 && two.queues(round) == 2 })
	must(second.Shutdown())
	sendUntil("again", func(round string) bool { return one.queues(round) == queues })
	await("all that was sent", func() bool {
		var both inbox
		both.add(one.all()...)
		both.add(two.all()...)
		return len(both.missing(all)) == 0
	})
}

// queues counts the queues that messages of this prefix came from.
func (in *inbox) queues(prefix string) int {
	seen := map[int]bool{}
	for _, m := range in.all() {
		if strings.HasPrefix(string(m.Body), prefix) {
			seen[m.Queue.QueueId] = true
		}
	}
	return len(seen)
}

// Every broadcast consumer gets everything.
func broadcast(s *scene) {
	topic := s.topic()
	var inboxes [2]inbox
	for i := range inboxes {
		s.consume(topic, "*", inboxes[i].take, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	bodies := sendMany(s.producer(), topic, "m", 40)
	for i := range inboxes {
		inboxes[i].awaitExactly(bodies)
	}
}

// A group goes on where it stopped.
func resumeClient(s *scene) {
	consumeFirstHalf(s)
	consumeSecondHalf(s)
}

// Consumes what is there, stops the consumer, and leaves more for the next one.
func consumeFirstHalf(s *scene) {
	topic := s.topic()
	p := s.producer()
	first := sendMany(p, topic, "first", 40)
	var in inbox
	started := time.Now()
	c := s.consume(topic, "*", in.take)
	in.awaitExactly(first)
	// The client's second heartbeat comes one second after its start, and a broker that handles
	// it after the connection's end (Apache's may) keeps a member that is gone for two minutes.
	time.Sleep(time.Until(started.Add(1500 * time.Millisecond)))
	must(c.Shutdown())
	sendMany(p, topic, "second", 40)
	q := s.producer(manual())
	for queue := range queues {
		sent(q, toQueue(message(topic, "end"), topic, queue))
	}
}

// A new consumer of the group gets the rest, and none of what was consumed.
func consumeSecondHalf(s *scene) {
	var in inbox
	s.consume(s.topicName(), "*", in.take)
	await("the last of each queue", func() bool { return in.count("end") == queues })
	var wanted []string
	for i := range 40 {
		wanted = append(wanted, fmt.Sprintf("second%d", i))
	}
	for range queues {
		wanted = append(wanted, "end")
	}
	in.awaitExactly(wanted)
}
