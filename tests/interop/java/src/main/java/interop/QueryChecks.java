package interop;

import java.util.Map;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Finding stored messages again. */
final class QueryChecks {
    private QueryChecks() {}

    static void addTo(Map<String, Driver.Check> checks) {
        checks.put("query-key", QueryChecks::byKey);
        checks.put("query-id", QueryChecks::byId);
        checks.put("query-time", QueryChecks::byTime);
        checks.put("query-restart-before", QueryChecks::sendWithKeys);
        checks.put("query-restart-after", QueryChecks::findByKeys);
    }

    private static void byKey(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQProducer producer = scene.producer();
        long from = System.currentTimeMillis() - 60_000;
        for (int i = 0; i < 6; i++) {
            Scene.sent(producer.send(new Message(topic, "t", "order" + i % 3 + " all", ("m" + i).getBytes())));
        }
        awaitFound(producer, topic, "order1", from, 2);
        awaitFound(producer, topic, "all", from, 6);
    }

    private static void awaitFound(DefaultMQProducer producer, String topic, String key, long from, int count)
        throws Exception {
        Scene.await(count + " messages of key " + key, () -> {
            try {
                QueryResult result = producer.queryMessage(topic, key, 32, from, System.currentTimeMillis() + 60_000);
                for (MessageExt message : result.getMessageList()) {
                    Scene.expect(message.getKeys().contains(key), "keys " + message.getKeys());
                }
                return result.getMessageList().size() == count;
            } catch (MQClientException notIndexedYet) {
                return false;
            }
        });
    }

    /** By the id that the client made and by the one that says where the message lies. */
    private static void byId(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQProducer producer = scene.producer();
        SendResult sent = Scene.send(producer, topic, "findme");
        for (String id : new String[] {sent.getMsgId(), sent.getOffsetMsgId()}) {
            MessageExt[] found = {null};
            Scene.await("message " + id, () -> {
                try {
                    found[0] = producer.viewMessage(topic, id);
                } catch (MQClientException notIndexedYet) {
                    return false;
                }
                return found[0] != null;
            });
            Scene.expectEqual("findme", Inbox.body(found[0]), "body");
            Scene.expectEqual(sent.getQueueOffset(), found[0].getQueueOffset(), "queue offset");
        }
    }

    private static void sendWithKeys(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQProducer producer = scene.producer();
        for (int i = 0; i < 5; i++) {
            Scene.sent(producer.send(new Message(topic, "t", "kept", ("m" + i).getBytes())));
        }
        awaitFound(producer, topic, "kept", System.currentTimeMillis() - 60_000, 5);
    }

    /** What an index file held before a restart, or in a folder of another make, is found again. */
    private static void findByKeys(Scene scene) throws Exception {
        awaitFound(scene.producer(), scene.topicName(), "kept", System.currentTimeMillis() - 3_600_000, 5);
    }

    private static void byTime(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQProducer producer = scene.producer();
        MessageQueue queue = producer.fetchPublishMessageQueues(topic).get(0);
        for (int i = 0; i < 5; i++) {
            Scene.sent(producer.send(Scene.message(topic, "m" + i), queue));
        }
        Scene.expectEqual(0L, producer.searchOffset(queue, 1L), "offset of the first message");
        Scene.expectEqual(0L, producer.minOffset(queue), "minimum offset");
        Scene.expectEqual(5L, producer.maxOffset(queue), "maximum offset");
        long stored = producer.earliestMsgStoreTime(queue);
        Scene.expect(Math.abs(System.currentTimeMillis() - stored) < 300_000, "store time " + stored);
    }
}
