package interop;

import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Messages that a consumer refuses. */
final class RetryChecks {
    private static final int RETRIES = 2;

    private RetryChecks() {}

    static void addTo(Map<String, Driver.Check> checks) {
        checks.put("retry-dlq", RetryChecks::concurrently);
        checks.put("retry-dlq-orderly", RetryChecks::orderly);
    }

    /** A refused message comes again twice, then lies in the dead-letter topic; its neighbour is done. */
    private static void concurrently(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQPushConsumer consumer = scene.pushConsumer();
        consumer.setMaxReconsumeTimes(RETRIES);
        consumer.subscribe(topic, "*");
        Inbox inbox = new Inbox();
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            inbox.add(batch);
            boolean bad = Inbox.body(batch.get(0)).equals("bad");
            return bad ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = scene.producer();
        SendResult bad = Scene.sent(producer.send(new Message(topic, "t", "k", "bad".getBytes())));
        Scene.send(producer, topic, "good");
        MessageExt dead = awaitDead(scene, producer);

        Scene.expectEqual(1L, inbox.count("good"), "deliveries of the good message");
        Scene.expectEqual(1L + RETRIES, inbox.count("bad"), "deliveries of the bad message");
        int times = 0;
        for (MessageExt got : inbox.all()) {
            if (Inbox.body(got).equals("bad")) {
                Scene.expectEqual(times++, got.getReconsumeTimes(), "reconsume times");
                Scene.expectEqual(topic, got.getTopic(), "topic");
                Scene.expectEqual(bad.getMsgId(), got.getMsgId(), "message id");
                Scene.expectEqual("t", got.getTags(), "tag");
            }
        }
        Scene.expectEqual(bad.getMsgId(), dead.getMsgId(), "message id of the dead message");
        Scene.expectEqual("k", dead.getKeys(), "keys of the dead message");
        Scene.expectEqual(topic, dead.getProperty(MessageConst.PROPERTY_RETRY_TOPIC), "RETRY_TOPIC");
        Scene.expectEqual(bad.getOffsetMsgId(),
            dead.getProperty(MessageConst.PROPERTY_ORIGIN_MESSAGE_ID), "ORIGIN_MESSAGE_ID");
    }

    /** An orderly consumer retries in place, then gives the message up and goes on. */
    private static void orderly(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQPushConsumer consumer = scene.pushConsumer();
        consumer.setMaxReconsumeTimes(RETRIES);
        consumer.setSuspendCurrentQueueTimeMillis(100);
        consumer.subscribe(topic, "*");
        Inbox inbox = new Inbox();
        consumer.registerMessageListener((MessageListenerOrderly) (batch, context) -> {
            inbox.add(batch);
            boolean bad = Inbox.body(batch.get(0)).equals("bad");
            return bad ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT : ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = scene.producer();
        MessageQueue queue = producer.fetchPublishMessageQueues(topic).get(0);
        Scene.sent(producer.send(Scene.message(topic, "bad"), queue));
        Scene.sent(producer.send(Scene.message(topic, "good"), queue));
        MessageExt dead = awaitDead(scene, producer);
        inbox.await(List.of("good"));
        Scene.expectEqual(List.of("bad", "bad", "bad", "good"), inbox.bodies(), "deliveries");
        Scene.expectEqual("bad", Inbox.body(dead), "body of the dead message");
    }

    /** Waits for the dead-letter topic, then for its only message. */
    private static MessageExt awaitDead(Scene scene, DefaultMQProducer producer) throws Exception {
        String topic = "%DLQ%" + scene.group();
        scene.awaitRoute(producer, topic);
        DefaultLitePullConsumer reader = scene.litePullConsumer();
        reader.setConsumerGroup(scene.group() + "_dead");
        reader.start();
        reader.assign(reader.fetchMessageQueues(topic));
        Inbox dead = new Inbox();
        Scene.await("a dead message", () -> {
            dead.add(reader.poll(200));
            return !dead.all().isEmpty();
        });
        dead.awaitExactly(List.of("bad"));
        return dead.all().get(0);
    }
}
