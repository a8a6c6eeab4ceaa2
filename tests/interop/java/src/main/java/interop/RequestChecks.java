package interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Requests and replies, and traces. */
final class RequestChecks {
    private RequestChecks() {}

    static void addTo(Map<String, Driver.Check> checks) {
        checks.put("request", RequestChecks::request);
    }

    /** Each request gets the reply to it; one that nobody replies to times out. */
    private static void request(Scene scene) throws Exception {
        String topic = scene.topic();
        DefaultMQProducer replier = scene.producer("_replier");
        List<String> refused = Collections.synchronizedList(new ArrayList<>());
        DefaultMQPushConsumer consumer = scene.pushConsumer();
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            for (MessageExt request : batch) {
                try {
                    if (!"silent".equals(Inbox.body(request))) {
                        Message reply = MessageUtil.createReplyMessage(request, ("re: " + Inbox.body(request)).getBytes());
                        Scene.sent(replier.send(reply, 20_000));
                    }
                } catch (Exception failed) {
                    refused.add(failed.toString());
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = scene.producer();
        List<String> replies = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            try {
                replies.add(Inbox.body(producer.request(Scene.message(topic, "m" + i), 30_000)));
            } catch (RequestTimeoutException late) {
                throw new AssertionError(late.getMessage() + " " + refused, late);
            }
        }
        for (int i = 0; i < 10; i++) {
            Scene.expectEqual("re: m" + i, replies.get(i), "reply");
        }
        try {
            producer.request(Scene.message(topic, "silent"), 1_000);
            throw new AssertionError("a reply that nobody sent");
        } catch (RequestTimeoutException expected) {
            // As it should be.
        }
    }
}
