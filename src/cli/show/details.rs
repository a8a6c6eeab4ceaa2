//! Everything about one thing: its facts, and lists that belong to it.

use serde_json::{Map, Value};

use super::{bold, Cell, Listing};

/// One thing.
#[derive(Clone, Debug, Default)]
pub struct Details {
    facts: Vec<(&'static str, &'static str, Cell)>,
    lists: Vec<(&'static str, &'static str, Listing)>,
    last: Option<(&'static str, Vec<u8>)>,
}

impl Details {
    /// With a fact: its name for programs, its title for eyes.
    pub fn fact(mut self, key: &'static str, title: &'static str, cell: Cell) -> Details {
        self.facts.push((key, title, cell));
        self
    }

    /// With a list.
    pub fn list(mut self, key: &'static str, title: &'static str, listing: Listing) -> Details {
        self.lists.push((key, title, listing));
        self
    }

    /// With what a message says, which stands last for eyes.
    pub fn body(mut self, key: &'static str, body: &[u8]) -> Details {
        self.last = Some((key, body.to_vec()));
        self
    }

    /// One object.
    pub fn to_json(&self) -> Value {
        let facts = self.facts.iter().map(|(key, _, cell)| (*key, cell.json()));
        let lists = self.lists.iter().map(|(key, _, listing)| (*key, listing.to_json()));
        let last = self.last.iter().map(|(key, body)| (*key, super::messages::body_json(body)));
        let fields = facts.chain(lists).chain(last).map(|(key, value)| (key.to_owned(), value));
        Value::Object(fields.collect::<Map<_, _>>())
    }

    /// Facts one below the other, then the lists.
    pub fn lines(&self, zone: i32, styled: bool) -> Vec<String> {
        let width = self.facts.iter().map(|(_, title, _)| title.len()).max().unwrap_or(0);
        let facts = self.facts.iter().filter(|(_, title, _)| !title.is_empty());
        let mut lines: Vec<String> = facts
            .map(|(_, title, cell)| {
                let blanks = " ".repeat(width - title.len());
                format!("{}{blanks}  {}", bold(title, styled), cell.human(zone))
            })
            .collect();
        for (_, title, listing) in &self.lists {
            lines.push(String::new());
            if !title.is_empty() {
                lines.push(bold(title, styled));
            }
            lines.extend(listing.lines(zone, styled));
        }
        if let Some((_, body)) = &self.last {
            lines.push(String::new());
            let text = String::from_utf8_lossy(body);
            lines.extend(text.split('\n').map(|line| super::messages::escaped(line.as_bytes())));
        }
        lines
    }
}
