//! What goes through the broker from one client to another.

use futures::future::join;
use metaq::proto::message::properties;
use metaq::proto::remoting::requests::{ConsumeMessageDirectly, GetConsumerRunningInfo};
use metaq::proto::remoting::{request, Command, Language, Response};

use super::support::{bodies, messages, send_command, Broker};

fn running_info(client: &str) -> Command {
    Command::request(request::GET_CONSUMER_RUNNING_INFO).with_ext(&GetConsumerRunningInfo {
        consumer_group: "cg".into(),
        client_id: client.into(),
        jstack_enable: true,
    })
}

/// WIR-2: two askers use the same number, and so do two answerers; each asker gets its own answer.
#[tokio::test]
async fn wir_2_answers_go_back_to_who_asked() {
    let broker = Broker::start("").await;
    let (a, b) = (broker.client().await, broker.client().await);
    for (client, name) in [(&a, "a"), (&b, "b")] {
        client.join(name, "cg", "Orders", Language::Java).await;
        let answer = Response { remark: Some(format!("by {name}")), ..Response::success() }.with_body(name);
        let answer = answer.with("name", name).with("odd \u{1}", "");
        client.answers(request::GET_CONSUMER_RUNNING_INFO, answer);
    }
    let (tool, other) = (broker.client().await, broker.client().await);
    for _ in 0..20 {
        let (from_a, from_b) = join(tool.ask(running_info("a")), other.ask(running_info("b"))).await;
        assert_eq!((from_a.body.as_slice(), from_a.remark.as_deref()), (b"a".as_slice(), Some("by a")));
        assert_eq!((from_a.ext("name"), from_a.ext("odd \u{1}")), (Some("a"), Some("")), "its fields are passed on");
        assert_eq!((from_b.body.as_slice(), from_b.remark.as_deref()), (b"b".as_slice(), Some("by b")));
    }
    assert_eq!(a.asked(request::GET_CONSUMER_RUNNING_INFO)[0].ext("jstackEnable"), Some("true"));

    b.answers(request::GET_CONSUMER_RUNNING_INFO, Response::error(207, "busy"));
    let refused = tool.ask(running_info("b")).await;
    assert_eq!((refused.code, refused.remark.as_deref()), (207, Some("busy")), "a refusal is passed on as it is");
    let absent = tool.ask(running_info("c")).await;
    assert_eq!((absent.code, absent.remark.as_deref()), (1, Some("The Consumer <cg> <c> not online")));
}

#[tokio::test]
async fn a_message_is_consumed_directly() {
    let broker = Broker::start("").await;
    let (consumer, tool) = (broker.client().await, broker.client().await);
    consumer.join("a", "cg", "Orders", Language::Java).await;
    let sent = tool.send("Orders", "again", &[]).await;
    consumer.answers(request::CONSUME_MESSAGE_DIRECTLY, Response::success().with_body("result"));
    let mut header = ConsumeMessageDirectly {
        consumer_group: "cg".into(),
        client_id: Some("a".into()),
        msg_id: Some(sent.message_id.as_str().into()),
        topic: Some("Orders".into()),
        broker_name: None,
        topic_sys_flag: None,
        group_sys_flag: None,
    };
    let code = request::CONSUME_MESSAGE_DIRECTLY;
    let answer = tool.get(Command::request(code).with_ext(&header)).await;
    assert_eq!(answer.body, b"result");
    let asked = consumer.wait_asked(code).await;
    assert_eq!(bodies(&messages(&asked.body)), ["again"]);
    let field = |name| asked.ext(name);
    assert_eq!(
        (field("brokerName"), field("topicSysFlag"), field("groupSysFlag")),
        (Some("broker-a"), Some("0"), Some("0"))
    );
    for id in ["nonsense", "7F00000100002A9F0000000000000FFF"] {
        header.msg_id = Some(id.into());
        assert_eq!(tool.ask(Command::request(code).with_ext(&header)).await.code, 1, "{id}");
    }
}

/// The reply reaches the client that asked over its own connection, and is stored.
#[tokio::test]
async fn a_reply_is_pushed_to_who_asked() {
    let broker = Broker::start("").await;
    let (requester, replier) = (broker.client().await, broker.client().await);
    requester.produce_as("asker", "pg").await;
    let topic = "DefaultCluster_REPLY_TOPIC";
    let reply = |client: &str, body: &str| {
        let properties = [("CORRELATION_ID", "c-1"), ("REPLY_TO_CLIENT", client), ("MSG_TYPE", "reply")];
        let mut command = send_command(topic, body, &properties);
        command.code = request::SEND_REPLY_MESSAGE_V2;
        command
    };
    let answer = replier.get(reply("asker", "yes")).await;
    let (id, transaction) = (answer.ext("msgId").map(str::len), answer.ext("transactionId"));
    assert_eq!((id, answer.ext("queueOffset"), transaction), (Some(32), Some("0"), None));
    let pushed = requester.wait_asked(request::PUSH_REPLY_MESSAGE_TO_CLIENT).await;
    assert_eq!((pushed.body.as_slice(), pushed.ext("topic")), (b"yes".as_slice(), Some(topic)));
    let text = pushed.ext("properties").unwrap();
    assert_eq!(properties::find(text, "CORRELATION_ID"), Some("c-1"));
    assert!(properties::find(text, "PUSH_REPLY_TIME").is_some());

    let lost = replier.ask(reply("nobody", "no")).await;
    assert_eq!((lost.code, lost.ext("queueOffset")), (1, Some("1")), "it is stored, and the replier is told");
    assert_eq!(lost.remark.as_deref(), Some("push reply message fail, channel of <nobody> not found."));
    let stored = replier.wait_messages("cg", topic, 0).await;
    assert_eq!(bodies(&stored), ["yes", "no"]);
}
