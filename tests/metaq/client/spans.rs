//! What the library says of its work to `tracing`.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use metaq::client::{Action, ConsumeFrom, Message};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::subscriber::set_default;
use tracing::{Dispatch, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

use super::support::{until, Cluster, LIMIT};

/// Keeps every span of the library, with those around it: `outer{a=1}:inner{b=2}`.
#[derive(Clone, Default)]
struct Collected(Arc<Mutex<BTreeSet<String>>>);

/// A span's text.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Collected {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if !attributes.metadata().target().starts_with("metaq::client") {
            return;
        }
        let mut text = Text(attributes.metadata().name().to_owned());
        attributes.record(&mut text);
        let span = context.span(id).unwrap();
        let around = span.parent().and_then(|parent| Some(format!("{}: ", parent.extensions().get::<Text>()?.0)));
        text.0.insert_str(0, &around.unwrap_or_default());
        self.0.lock().unwrap().insert(text.0.clone());
        span.extensions_mut().insert(text);
    }
}

impl Collected {
    fn has(&self, wanted: &str) -> bool {
        self.0.lock().unwrap().iter().any(|span| span.starts_with(wanted))
    }
}

#[tokio::test]
async fn a_message_leaves_spans_on_its_way() {
    let collected = Collected::default();
    // With one subscriber alone, what other tests' threads come across first would count as wanted by nobody.
    let _another = Dispatch::new(Registry::default());
    let _guard = set_default(Registry::default().with(collected.clone()));
    let cluster = Cluster::start(1, "").await;
    cluster.make_topic("Orders", 1).await;
    let client = cluster.client();
    let producer = client.producer("pg").start().unwrap();
    producer.send(Message::new("Orders", "a book")).await.unwrap();
    let consumer = client.push_consumer("cg").subscribe("Orders", "*").consume_from(ConsumeFrom::First);
    let consumed = Arc::new(Mutex::new(0));
    let count = Arc::clone(&consumed);
    let listener = move |_| {
        *count.lock().unwrap() += 1;
        async { Action::Done }
    };
    let consumer = consumer.concurrently(listener).await.unwrap();
    until(&cluster.env, async || (*consumed.lock().unwrap() == 1).then_some(())).await;
    consumer.stop(LIMIT).await;
    for wanted in [
        r#"send group="pg" topic="Orders" messages=1: request code=310 address="127.0.0.1:"#,
        r#"rebalance group="cg": request code="#,
        r#"queue group="cg" topic="Orders" broker="broker-a" queue_id=0: request code=11 address="127.0.0.1:"#,
    ] {
        assert!(collected.has(wanted), "{wanted} is not in {collected:#?}", collected = collected.0.lock().unwrap());
    }
}
