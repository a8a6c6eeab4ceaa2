//! An order service in one file: orders are placed in order, shipped in order, billed with retries, and what cannot be
//! billed is found among the dead letters.
//!
//! ```text
//! metaq up &
//! cargo run --example order_service                # or with NAMESRV_ADDR=HOST:PORT of any RocketMQ cluster
//! ```

use std::error::Error;
use std::time::Duration;

use metaq::client::{Action, Client, ConsumeFrom, Message, OrderlyAction, Position};
use metaq::env::real;
use tokio::sync::mpsc;

const TOPIC: &str = "ExampleOrders";
const STEPS: [&str; 3] = ["placed", "paid", "packed"];
const ORDERS: usize = 4;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let nameservers = std::env::var("NAMESRV_ADDR").unwrap_or_else(|_| "127.0.0.1:9876".into());
    let client = Client::new(&real::env(), &nameservers)?;
    client.admin().create_topic(TOPIC, 4).await?;

    // Shipping needs the steps of an order one after the other: it consumes in order.
    let (shipped, mut shipping) = mpsc::unbounded_channel();
    let ship = client.push_consumer("example-shipping").subscribe(TOPIC, "*").consume_from(ConsumeFrom::First);
    let ship = ship
        .orderly(move |step| {
            let shipped = shipped.clone();
            async move {
                let order = step.keys().next().unwrap_or("?").to_owned();
                let _ = shipped.send(format!("{order}: {}", String::from_utf8_lossy(&step.body)));
                OrderlyAction::Done
            }
        })
        .await?;

    // Billing wants only what is paid. Its bank is down at first, and will never take order 3.
    let (billed, mut billing) = mpsc::unbounded_channel();
    let bill = client.push_consumer("example-billing").subscribe(TOPIC, "paid").consume_from(ConsumeFrom::First);
    let bill = bill
        .concurrently(move |payment| {
            let billed = billed.clone();
            async move {
                let order = payment.keys().next().unwrap_or("?").to_owned();
                let action = match payment.reconsume_times {
                    _ if order == "order-3" => Action::DeadLetter,
                    0 => Action::RetryAtLevel(1),
                    _ => Action::Done,
                };
                let _ = billed.send(format!("{order}, attempt {}: {action:?}", payment.reconsume_times + 1));
                action
            }
        })
        .await?;

    // Each order's steps go to the queue of its key.
    let producer = client.producer("example-orders").start()?;
    for step in STEPS {
        for number in 0..ORDERS {
            let order = format!("order-{number}");
            let message = Message::new(TOPIC, step).tag(step).key(&order);
            let sent = producer.send_ordered(message, &order).await?;
            println!("sent     {order}: {step} as number {} of queue {}", sent.offset, sent.queue.queue_id);
        }
    }

    for _ in 0..STEPS.len() * ORDERS {
        println!("shipping {}", shipping.recv().await.ok_or("shipping ended")?);
    }
    for _ in 0..2 * ORDERS - 1 {
        println!("billing  {}", billing.recv().await.ok_or("billing ended")?);
    }
    ship.stop(Duration::from_secs(5)).await;
    bill.stop(Duration::from_secs(5)).await;

    let dead = client.admin().queues("%DLQ%example-billing").await?;
    let mut reader = client.reader().assign(dead).start().await?;
    for (queue, _) in reader.positions() {
        reader.seek(&queue, Position::Begin).await?;
    }
    for message in reader.poll(Duration::from_secs(5)).await? {
        println!("dead     {:?}: {}", message.keys().next(), String::from_utf8_lossy(&message.body));
    }
    reader.close().await;
    client.close().await;
    Ok(())
}
