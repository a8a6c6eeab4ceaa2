package interop;

import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Messages that are sent together with a local transaction. */
final class TransactionChecks {
    private TransactionChecks() {}

    static void addTo(Map<String, Driver.Check> checks) {
        checks.put("transactions", TransactionChecks::transactions);
    }

    /**
     * Local transactions that end at once, and some that only a question brings to light: what is committed
     * arrives once, nothing else does.
     */
    private static void transactions(Scene scene) throws Exception {
        String topic = scene.topic();
        Map<String, MessageExt> asked = new ConcurrentHashMap<>();
        TransactionMQProducer producer = scene.transactionProducer(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object state) {
                return (LocalTransactionState) state;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                asked.put(Inbox.body(message), message);
                return Inbox.body(message).equals("asked-commit")
                    ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        TransactionSendResult unknown =
            send(producer, topic, "asked-commit", LocalTransactionState.UNKNOW);
        send(producer, topic, "asked-rollback", LocalTransactionState.UNKNOW);
        send(producer, topic, "commit", LocalTransactionState.COMMIT_MESSAGE);
        send(producer, topic, "rollback", LocalTransactionState.ROLLBACK_MESSAGE);

        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = scene.pushConsumer();
        consumer.subscribe(topic, "*");
        inbox.concurrently(consumer);
        consumer.start();
        Scene.await("both questions", () -> asked.size() == 2);
        inbox.awaitExactly(Arrays.asList("commit", "asked-commit"));

        MessageExt question = asked.get("asked-commit");
        Scene.expectEqual(topic, question.getTopic(), "topic of the question");
        Scene.expectEqual(unknown.getTransactionId(), question.getTransactionId(), "transaction id");
        int times = Integer.parseInt(question.getProperty("TRANSACTION_CHECK_TIMES"));
        Scene.expect(times >= 1, "questions counted: " + times);
        for (MessageExt got : inbox.all()) {
            Scene.expect(got.getPreparedTransactionOffset() > 0, "no place of the half message");
        }
    }

    private static TransactionSendResult send(
        TransactionMQProducer producer, String topic, String body, LocalTransactionState state) throws Exception {
        TransactionSendResult result =
            producer.sendMessageInTransaction(Scene.message(topic, body), state);
        Scene.sent(result);
        Scene.expectEqual(state, result.getLocalTransactionState(), "state of " + body);
        return result;
    }
}
