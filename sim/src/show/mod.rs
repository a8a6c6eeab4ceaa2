//! One run as a page: lanes of machines over time, messages, faults, offsets, every event, and the violation.
//!
//! The page is one file that needs nothing else. It is drawn on a canvas, so a hundred thousand events move smoothly.

use std::collections::BTreeMap;

use serde_json::{json, Value};

use crate::plan::Plan;
use crate::report::commit;
use crate::runner::Outcome;
use crate::trace::Recording;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const BESIDE: &str = include_str!("beside.html");
const SCRIPT: [&str; 3] = [include_str!("model.js"), include_str!("timeline.js"), include_str!("page.js")];

/// The page of a run.
pub fn page(plan: &Plan, outcome: &Outcome, which: &str) -> String {
    let data = json!({
        "title": format!("{} {}", plan.scenario, plan.seed),
        "commit": commit(),
        "hash": format!("{:016x}", outcome.hash),
        "simulated": outcome.simulated.as_secs_f64(),
        "began": outcome.began.as_secs_f64(),
        "which": which,
        "checker": outcome.violation.as_ref().map(|violation| violation.checker),
        "finding": outcome.violation.as_ref().map(|violation| violation.finding.as_str()),
        "plan": plan.text(),
        "trace": trace(&outcome.recording),
    });
    // Within a script element only this could end it.
    let data = data.to_string().replace("</", "<\\/");
    let script = SCRIPT.join("\n");
    PAGE.replace("/*STYLE*/", STYLE).replace("/*SCRIPT*/", &script).replace("/*DATA*/", &data)
}

/// One page of the pages of two runs: one that fails and, beside it, one that passes. It says where they part.
pub fn beside(fails: &str, passes: &str) -> String {
    let quoted = |page: &str| page.replace('&', "&amp;").replace('"', "&quot;");
    BESIDE.replace("/*FAILS*/", &quoted(fails)).replace("/*PASSES*/", &quoted(passes))
}

/// Events as rows of numbers: microseconds since the event before, machine, event, words, numbers. Words stand in
/// tables, since most of them come again.
fn trace(recording: &Recording) -> Value {
    let (mut whats, mut words) = (Table::default(), Table::default());
    let mut before = 0;
    let rows: Vec<Value> = recording
        .events
        .iter()
        .map(|event| {
            let at = event.at.as_micros() as u64;
            let mut row =
                vec![at - before, u64::from(event.node.0), whats.place(event.what), words.place(&event.words)];
            before = at;
            row.extend_from_slice(&event.numbers);
            json!(row)
        })
        .collect();
    json!({ "names": recording.names, "whats": whats.rows, "words": words.rows, "rows": rows })
}

/// Texts and their places.
#[derive(Default)]
struct Table {
    places: BTreeMap<String, u64>,
    rows: Vec<String>,
}

impl Table {
    fn place(&mut self, text: &str) -> u64 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.rows.len() as u64;
        self.places.insert(text.to_owned(), place);
        self.rows.push(text.to_owned());
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::Violation;
    use crate::scenarios;
    use crate::trace::Noted;
    use crate::world::NodeId;
    use std::time::Duration;

    fn outcome(events: usize) -> Outcome {
        let event = |index: usize| Noted {
            at: Duration::from_micros(index as u64 * 300),
            node: NodeId(index as u32 % 6),
            what: ["net data", "disk write", "acknowledged"][index % 3],
            numbers: [index as u64, 0, 132][..].into(),
            words: ["", "broker-0/orders/1"][index % 2].into(),
        };
        Outcome {
            violation: Some(Violation::new("a checker", "</script> is no way out")),
            hash: 7,
            events: events as u64,
            simulated: Duration::from_secs(30),
            began: Duration::from_millis(1),
            recording: Recording { names: vec!["world".into(); 6], events: (0..events).map(event).collect() },
        }
    }

    #[test]
    fn a_page_stands_alone_and_nothing_breaks_out_of_its_data() {
        let page = page(&scenarios::ALL[0].plan(1), &outcome(10), "ping 1");
        assert!(!page.contains("/*DATA*/") && !page.contains("/*SCRIPT*/") && !page.contains("/*STYLE*/"));
        assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("src="));
        assert!(page.contains("<\\/script> is no way out"));
    }

    #[test]
    fn two_pages_become_one() {
        let (fails, passes) = ("<p class=\"a\">&amp;</p>", "<p>/*FAILS*/</p>");
        let page = beside(fails, passes);
        assert!(page.contains("srcdoc=\"<p class=&quot;a&quot;>&amp;amp;</p>\""), "{page}");
        assert!(page.contains("srcdoc=\"<p>/*FAILS*/</p>\""));
    }

    #[test]
    fn a_hundred_thousand_events_stay_below_five_megabytes() {
        let page = page(&scenarios::ALL[0].plan(1), &outcome(100_000), "ping 1");
        assert!(page.len() < 5_000_000, "{} bytes", page.len());
    }
}
