package main

import (
	"context"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// A listener decides by the body: "asked-" messages only when it is asked.
type listener struct {
	lock  sync.Mutex
	asked map[string]*primitive.MessageExt
}

func (l *listener) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	switch string(m.Body) {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnkonwnState
}

func (l *listener) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.asked[string(m.Body)] = m
	if string(m.Body) == "asked-commit" {
		return primitive.CommitMessageState
	}
	return primitive.RollbackMessageState
}

func (l *listener) questions() int {
	l.lock.Lock()
	defer l.lock.Unlock()
	return len(l.asked)
}

// What is committed arrives once, at once or after a question; nothing else does.
func transactions(s *scene) {
	topic := s.topic()
	l := &listener{asked: map[string]*primitive.MessageExt{}}
	p, err := rocketmq.NewTransactionProducer(l,
		producer.WithNameServer(s.nameserv),
		producer.WithGroupName("P_"+s.prefix),
		producer.WithInstanceName(s.instance()),
		producer.WithSendMsgTimeout(20*time.Second))
	must(err)
	must(p.Start())
	s.onClose(p.Shutdown)
	for _, body := range []string{"asked-commit", "asked-rollback", "commit", "rollback"} {
		result, err := p.SendMessageInTransaction(context.Background(), message(topic, body))
		must(err)
		expectEqual(primitive.SendOK, result.Status, "status of "+body)
	}
	var in inbox
	s.consume(topic, "*", in.take)
	await("both questions", func() bool { return l.questions() == 2 })
	in.awaitExactly([]string{"commit", "asked-commit"})
	expectEqual(topic, l.asked["asked-commit"].Topic, "topic of the question")
}
