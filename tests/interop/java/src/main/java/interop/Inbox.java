package interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** What consumers got, in the order they got it. */
final class Inbox {
    private final List<MessageExt> messages = new ArrayList<>();

    /** Takes messages concurrently and accepts them all. */
    Inbox concurrently(DefaultMQPushConsumer consumer) {
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            add(batch);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        return this;
    }

    /** Takes messages queue by queue and accepts them all. */
    Inbox orderly(DefaultMQPushConsumer consumer) {
        consumer.registerMessageListener((MessageListenerOrderly) (batch, context) -> {
            add(batch);
            return ConsumeOrderlyStatus.SUCCESS;
        });
        return this;
    }

    synchronized void add(Collection<MessageExt> batch) {
        messages.addAll(batch);
    }

    synchronized List<MessageExt> all() {
        return new ArrayList<>(messages);
    }

    List<String> bodies() {
        return all().stream().map(Inbox::body).collect(Collectors.toList());
    }

    Set<String> distinct() {
        return new HashSet<>(bodies());
    }

    long count(String body) {
        return bodies().stream().filter(body::equals).count();
    }

    /** Waits until all these bodies are here. */
    void await(Collection<String> bodies) throws Exception {
        Set<String> wanted = new HashSet<>(bodies);
        try {
            Scene.await("messages", () -> distinct().containsAll(wanted));
        } catch (AssertionError late) {
            wanted.removeAll(distinct());
            throw new AssertionError(late.getMessage() + ": " + wanted.size() + " of " + bodies.size()
                + " missing, such as " + wanted.iterator().next());
        }
    }

    /** Waits for these bodies, then insists that each came once and nothing else came. */
    void awaitExactly(Collection<String> bodies) throws Exception {
        await(bodies);
        List<String> got = bodies();
        Scene.expectEqual(new HashSet<>(bodies), new HashSet<>(got), "bodies");
        Scene.expectEqual(bodies.size(), got.size(), "number of deliveries");
    }

    static String body(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }
}
