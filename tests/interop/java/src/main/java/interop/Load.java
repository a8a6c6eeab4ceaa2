package interop;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends and consumes until the file INTEROP_STOP appears, then insists that all that was
 * acknowledged was consumed. Prints its progress, from which the harness sees what still works:
 * the acknowledged sends and the deliveries per broker.
 */
final class Load {
    private static final int SENDERS = 2;

    private Load() {}

    static void addTo(Map<String, Driver.Check> checks) {
        checks.put("load-after", Load::run);
    }

    private static void run(Scene scene) throws Exception {
        Path stop = Path.of(System.getenv("INTEROP_STOP"));
        String topic = System.getenv("INTEROP_TOPIC");
        Set<String> acknowledged = ConcurrentHashMap.newKeySet();
        Set<String> consumed = ConcurrentHashMap.newKeySet();
        Map<String, Integer> sends = new ConcurrentHashMap<>();
        Map<String, Integer> deliveries = new ConcurrentHashMap<>();

        DefaultMQPushConsumer consumer = scene.pushConsumer();
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            for (MessageExt message : batch) {
                consumed.add(Inbox.body(message));
                deliveries.merge(message.getBrokerName(), 1, Integer::sum);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();

        DefaultMQProducer producer = scene.producer();
        producer.setSendMsgTimeout(3000);
        producer.setSendLatencyFaultEnable(true);
        Thread[] senders = new Thread[SENDERS];
        for (int i = 0; i < SENDERS; i++) {
            int sender = i;
            senders[i] = new Thread(() -> {
                for (int n = 0; !Files.exists(stop); n++) {
                    String body = "s" + sender + "-" + n;
                    try {
                        SendResult result = producer.send(Scene.message(topic, body));
                        if (result.getSendStatus() == SendStatus.SEND_OK) {
                            acknowledged.add(body);
                            sends.merge(result.getMessageQueue().getBrokerName(), 1, Integer::sum);
                        }
                        Thread.sleep(2);
                    } catch (Exception refused) {
                        // No promise was made for this one. What is acknowledged later counts.
                    }
                }
            });
            senders[i].start();
        }
        while (!Files.exists(stop)) {
            System.out.println("progress sends " + sends + " deliveries " + deliveries);
            Thread.sleep(100);
        }
        for (Thread sender : senders) {
            sender.join();
        }
        System.out.println("sent " + acknowledged.size());
        try {
            Scene.await("all that was acknowledged", () -> consumed.containsAll(acknowledged));
        } catch (AssertionError late) {
            acknowledged.removeAll(consumed);
            throw new AssertionError(late.getMessage() + ": missing " + acknowledged.size() + ", such as "
                + acknowledged.iterator().next());
        }
    }
}
