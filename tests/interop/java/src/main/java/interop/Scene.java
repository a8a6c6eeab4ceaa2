package interop;

import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** The names, clients and waits of one check; closing it shuts the clients down. */
final class Scene implements AutoCloseable {
    static final int QUEUES = 4;
    private static final long DEADLINE_MS = 90_000;

    interface Condition {
        boolean holds() throws Exception;
    }

    private final String prefix;
    private final Deque<Runnable> closers = new ArrayDeque<>();
    private final AtomicInteger instances = new AtomicInteger();

    Scene(String driver, String check) {
        // The two halves of a check that spans a restart share their names.
        String shared = check.replaceAll("-(before|after)$", "");
        String run = System.getenv().getOrDefault("INTEROP_RUN", "0");
        prefix = (run + "_" + driver + "_" + shared).replaceAll("[^A-Za-z0-9_-]", "-");
    }

    /** A topic of QUEUES queues that the NameServer already knows. */
    String topic() throws Exception {
        return topic(topicName());
    }

    String topic(String topic) throws Exception {
        DefaultMQProducer creator = producer();
        createTopic(creator, topic);
        awaitRoute(creator, topic);
        return topic;
    }

    /** The name of this check's topic, whether it exists or not. */
    String topicName() {
        return "T_" + prefix;
    }

    String group() {
        return "G_" + prefix;
    }

    void awaitRoute(DefaultMQProducer client, String topic) throws Exception {
        await("a route of " + topic, () -> {
            try {
                return !client.fetchPublishMessageQueues(topic).isEmpty();
            } catch (MQClientException notYet) {
                return false;
            }
        });
    }

    DefaultMQProducer producer() throws MQClientException {
        return producer("");
    }

    DefaultMQProducer producer(String more) throws MQClientException {
        DefaultMQProducer producer = new DefaultMQProducer("P_" + prefix + more);
        configure(producer);
        producer.setSendMsgTimeout(20_000);
        producer.start();
        closers.push(producer::shutdown);
        return producer;
    }

    TransactionMQProducer transactionProducer(TransactionListener listener) throws MQClientException {
        TransactionMQProducer producer = new TransactionMQProducer("P_" + prefix + "_tx");
        configure(producer);
        producer.setSendMsgTimeout(20_000);
        producer.setTransactionListener(listener);
        producer.start();
        closers.push(producer::shutdown);
        return producer;
    }

    /** A push consumer from the first offset on, not yet subscribed or started. */
    DefaultMQPushConsumer pushConsumer() {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group());
        configure(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(1000);
        // Without it a shutdown forgets the offsets of messages that are just being consumed.
        consumer.setAwaitTerminationMillisWhenShutdown(5000);
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        closers.push(consumer::shutdown);
        return consumer;
    }

    DefaultLitePullConsumer litePullConsumer() {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group());
        configure(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        closers.push(consumer::shutdown);
        return consumer;
    }

    @SuppressWarnings("deprecation")
    DefaultMQPullConsumer pullConsumer() {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group());
        configure(consumer);
        closers.push(consumer::shutdown);
        return consumer;
    }

    private void configure(ClientConfig client) {
        client.setNamesrvAddr(System.getenv("NAMESRV_ADDR"));
        client.setInstanceName(prefix + "_" + instances.incrementAndGet());
        client.setPollNameServerInterval(1000);
        client.setClientCallbackExecutorThreads(2);
    }

    /** Sets CLUSTERING or BROADCASTING: the class of the parameter moved between versions. */
    static void setMessageModel(DefaultMQPushConsumer consumer, String model) throws Exception {
        for (Method method : DefaultMQPushConsumer.class.getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                for (Object constant : method.getParameterTypes()[0].getEnumConstants()) {
                    if (constant.toString().equals(model)) {
                        method.invoke(consumer, constant);
                        return;
                    }
                }
            }
        }
        throw new IllegalStateException("no setMessageModel");
    }

    /** Asks every broker for the topic; version 5 wants attributes too. */
    private static void createTopic(DefaultMQProducer client, String topic) throws Exception {
        try {
            Method method = DefaultMQProducer.class.getMethod(
                "createTopic", String.class, String.class, int.class, Map.class);
            method.invoke(client, "TBW102", topic, QUEUES, Collections.emptyMap());
        } catch (NoSuchMethodException version4) {
            Method method = DefaultMQProducer.class.getMethod(
                "createTopic", String.class, String.class, int.class);
            method.invoke(client, "TBW102", topic, QUEUES);
        }
    }

    static Message message(String topic, String body) {
        return new Message(topic, body.getBytes(StandardCharsets.UTF_8));
    }

    /** Sends the text and insists on SEND_OK. */
    static SendResult send(DefaultMQProducer producer, String topic, String body) throws Exception {
        return sent(producer.send(message(topic, body)));
    }

    /** Sends `prefix0` to `prefix(count-1)`, returns these bodies. */
    static List<String> sendMany(DefaultMQProducer producer, String topic, String prefix, int count)
        throws Exception {
        List<String> bodies = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            send(producer, topic, prefix + i);
            bodies.add(prefix + i);
        }
        return bodies;
    }

    static SendResult sent(SendResult result) {
        expect(result.getSendStatus() == SendStatus.SEND_OK, "status " + result.getSendStatus());
        expect(result.getMsgId() != null && !result.getMsgId().isEmpty(), "no message id");
        return result;
    }

    /** One message of this body into each queue: when they arrive, all before them have arrived. */
    static void sendToEachQueue(DefaultMQProducer producer, String topic, String tag, String body)
        throws Exception {
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        expect(queues.size() == QUEUES, "queues " + queues.size());
        for (MessageQueue queue : queues) {
            Message message = new Message(topic, tag, body.getBytes(StandardCharsets.UTF_8));
            sent(producer.send(message, queue));
        }
    }

    static void expect(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void expectEqual(Object expected, Object actual, String what) {
        expect(expected.equals(actual), what + ": expected " + expected + ", got " + actual);
    }

    static void await(String what, Condition condition) throws Exception {
        long end = System.nanoTime() + DEADLINE_MS * 1_000_000;
        while (!condition.holds()) {
            if (System.nanoTime() > end) {
                throw new AssertionError("waited " + DEADLINE_MS / 1000 + " s for " + what);
            }
            Thread.sleep(20);
        }
    }

    @Override
    public void close() {
        for (Runnable closer : closers) {
            try {
                closer.run();
            } catch (RuntimeException ignored) {
                // The check's own result counts.
            }
        }
    }
}
