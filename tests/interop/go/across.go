package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// Messages of one make of client, consumed by another. README.md says what is sent.
const (
	plainCount   = 10
	batchCount   = 10
	keyCount     = 3
	stepCount    = 10
	refusedCount = 4
)

func acrossNames(kind string) (topic, group string) {
	pair := os.Getenv("INTEROP_ACROSS")
	return "X_" + pair + "_" + kind, "XG_" + pair + "_" + kind
}

func compressions() []string { return strings.Split(os.Getenv("INTEROP_COMPRESS"), ",") }

func packedBody() []byte {
	body := make([]byte, 100_000)
	for i := range body {
		body[i] = byte('a' + i%23)
	}
	return body
}

// This client compresses with zlib only.
func acrossSend(s *scene) {
	name, _ := acrossNames("all")
	topic := s.makeTopic(name)
	p := s.producer(producer.WithQueueSelector(producer.NewHashQueueSelector()))
	for i := range plainCount {
		m := message(topic, fmt.Sprintf("plain%d", i)).WithTag("plain").WithKeys([]string{fmt.Sprintf("k%d", i)})
		m.WithProperty("colour", "blue")
		sent(p, m)
	}
	for _, kind := range compressions() {
		expectEqual("zlib", kind, "compression")
		sent(p, primitive.NewMessage(topic, packedBody()).WithTag("packed").WithKeys([]string{kind}))
	}
	var batch []*primitive.Message
	for i := range batchCount {
		batch = append(batch, message(topic, fmt.Sprintf("batch%d", i)).WithTag("batch"))
	}
	sent(p, batch...)
	for step := range stepCount {
		for key := range keyCount {
			m := message(topic, fmt.Sprintf("key%d-%d", key, step)).WithTag("ordered")
			sent(p, m.WithShardingKey(fmt.Sprintf("key%d", key)))
		}
	}
}

// Sends messages and refuses them; whoever joins the group next has to get them again.
func acrossRefuse(s *scene) {
	name, group := acrossNames("refused")
	topic := s.makeTopic(name)
	var in inbox
	c := s.consumeAs(group, topic, "*", func(
		_ context.Context, batch ...*primitive.MessageExt,
	) (consumer.ConsumeResult, error) {
		in.add(batch...)
		return consumer.ConsumeRetryLater, nil
	})
	p := s.producer()
	var bodies []string
	for i := range refusedCount {
		bodies = append(bodies, fmt.Sprintf("refused%d", i))
		sent(p, message(topic, bodies[i]).WithKeys([]string{fmt.Sprintf("k%d", i)}))
	}
	await("all to be refused", func() bool { return len(in.missing(bodies)) == 0 })
	// This client hands messages back in the background, and its end does not wait for that: once a message comes
	// again, all are handed back.
	await("one to come again", func() bool { return len(in.all()) > refusedCount })
	must(c.Shutdown())
}

func acrossConsume(s *scene) {
	topic, group := acrossNames("all")
	var in inbox
	s.consumeAs(group, topic, "*", in.take, consumer.WithConsumerOrder(true))
	wanted := plainCount + len(compressions()) + batchCount + stepCount*keyCount
	await(fmt.Sprintf("%d messages", wanted), func() bool { return len(in.all()) >= wanted })
	expectEqual(wanted, len(in.all()), "messages")
	counts, next := map[string]int{}, map[string]int{}
	for _, m := range in.all() {
		body, keys := string(m.Body), strings.TrimSpace(m.GetKeys())
		switch m.GetTags() {
		case "plain":
			expectEqual("k"+strings.TrimPrefix(body, "plain"), keys, "keys")
			expectEqual("blue", m.GetProperty("colour"), "property")
		case "packed":
			expect(bytes.Equal(packedBody(), m.Body), "body of %s", keys)
			expect(m.StoreSize < 50_000, "stored %d bytes", m.StoreSize)
		case "batch":
			expectEqual(fmt.Sprintf("batch%d", counts["batch"]), body, "order of the batch")
		case "ordered":
			key := body[:4]
			expectEqual(fmt.Sprintf("%s-%d", key, next[key]), body, "order")
			next[key]++
		}
		counts[m.GetTags()]++
	}
	expectEqual(plainCount, counts["plain"], "plain messages")
	expectEqual(len(compressions()), counts["packed"], "compressed messages")
	expectEqual(batchCount, counts["batch"], "messages of the batch")
	expectEqual(keyCount, len(next), "keys")
	consumeRefused(s)
}

// What another member of the group has refused comes here.
func consumeRefused(s *scene) {
	topic, group := acrossNames("refused")
	var in inbox
	s.consumeAs(group, topic, "*", in.take)
	var bodies []string
	for i := range refusedCount {
		bodies = append(bodies, fmt.Sprintf("refused%d", i))
	}
	in.awaitExactly(bodies)
	for _, m := range in.all() {
		expectEqual("k"+strings.TrimPrefix(string(m.Body), "refused"), strings.TrimSpace(m.GetKeys()), "keys")
		expectEqual(topic, m.Topic, "topic")
		expect(m.ReconsumeTimes > 0, "was not refused before")
	}
}
