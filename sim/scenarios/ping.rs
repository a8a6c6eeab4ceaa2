//! Two actors on two machines send each other numbers over the network while the server is killed and comes back.
//! It proves the simulator itself: actors, network, faults and replay, without any of the product's own code.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{poll_fn, select, Either};
use futures::FutureExt;
use metaq::env::{Env, Stream};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use crate::checkers::Violation;
use crate::faults::{Fault, NetFault, ProcessFault};
use crate::plan::Plan;
use crate::scenarios::{Scenario, Verdict};
use crate::stage::begin_faults;
use crate::world::{NodeId, World};

/// The scenario.
pub const SCENARIO: Scenario = Scenario {
    name: "ping",
    story: "two actors exchange numbers while one of them is killed, cut off and restarted",
    draft: |d| {
        d.fault(3..=3, "faults", |d| {
            let (machine, us) = ("server".to_owned(), d.random.between(1_000, 3_000_000));
            match d.random.below(3) {
                0 => Fault::Process(ProcessFault::Kill { machine, down_us: us }),
                1 => Fault::Process(ProcessFault::PowerCut { machine, down_us: us }),
                _ => Fault::Net(NetFault::Cut { a: "client".to_owned(), b: machine, for_us: us }),
            }
        });
    },
    play: |world, plan| run(world, plan).boxed_local(),
};

const PORT: &str = "server:7000";
const ROUNDS: u64 = 50;

/// Adds one to a number.
struct Adder;

enum AdderMsg {
    Add(u64, RpcReplyPort<u64>),
}

impl Actor for Adder {
    type Msg = AdderMsg;
    type State = u64;
    type Arguments = ();

    async fn pre_start(&self, _myself: ActorRef<AdderMsg>, (): ()) -> Result<u64, ActorProcessingErr> {
        Ok(0)
    }

    async fn handle(
        &self,
        _myself: ActorRef<AdderMsg>,
        AdderMsg::Add(number, reply): AdderMsg,
        answered: &mut u64,
    ) -> Result<(), ActorProcessingErr> {
        *answered += 1;
        reply.send(number + 1)?;
        Ok(())
    }
}

async fn write_number(stream: &mut Box<dyn Stream>, number: u64) -> std::io::Result<()> {
    let bytes = number.to_be_bytes();
    let mut done = 0;
    while done < bytes.len() {
        done += poll_fn(|cx| stream.poll_write(cx, &bytes[done..])).await?;
    }
    Ok(())
}

async fn read_number(stream: &mut Box<dyn Stream>) -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    let mut done = 0;
    while done < bytes.len() {
        match poll_fn(|cx| stream.poll_read(cx, &mut bytes[done..])).await? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => done += count,
        }
    }
    Ok(u64::from_be_bytes(bytes))
}

async fn serve(env: Env) {
    let (adder, _) = Actor::spawn(None, Adder, ()).await.expect("the actor starts");
    let mut listener = env.net.listen(([0, 0, 0, 0], 7000).into()).await.expect("the port is free");
    while let Ok((mut stream, _)) = listener.accept().await {
        let adder = adder.clone();
        ractor::concurrency::spawn(async move {
            while let Ok(number) = read_number(&mut stream).await {
                let Ok(sum) = ractor::call!(adder, AdderMsg::Add, number) else { return };
                if write_number(&mut stream, sum).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// Sends numbers until all are answered, over as many connections as that takes.
async fn ask(env: Env, world: World, node: NodeId) -> Result<u64, Violation> {
    let mut connections = 0;
    let mut number = 0;
    while number < ROUNDS {
        let Ok(mut stream) = env.net.connect(PORT).await else {
            env.clock.sleep(Duration::from_millis(100)).await;
            continue;
        };
        connections += 1;
        while number < ROUNDS {
            let sent = number;
            let exchange = async {
                write_number(&mut stream, sent).await?;
                read_number(&mut stream).await
            };
            match select(exchange.boxed(), env.clock.sleep(Duration::from_secs(2))).await {
                Either::Left((Ok(sum), _)) if sum == sent + 1 => number += 1,
                Either::Left((Ok(sum), _)) => {
                    return Err(Violation::new("ping", format!("{number} + 1 was answered by {sum}")));
                }
                _ => break,
            }
            world.note(node, "answered", &[number], "");
            env.clock.sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(connections)
}

async fn run(world: World, plan: Arc<Plan>) -> Verdict {
    let (client, server) = (world.add_node("client"), world.add_node("server"));
    world.set_program(server, move |world| drop(world.spawn(server, serve(world.env(server)))));
    world.run_program(server);
    begin_faults(&world, &plan);
    let asking = world.spawn(client, ask(world.env(client), world.clone(), client));
    let connections = asking.await.map_err(|_| Violation::new("ping", "the client was killed"))??;
    world.note(client, "done", &[connections], "");
    Ok(())
}
