//! Tables.

use serde_json::{Map, Value};

use super::{bold, Cell};

/// Blanks between columns.
const GAP: &str = "  ";
/// No column but the last is made wider for one long value.
const WIDTH_MAX: usize = 60;

/// A column: its name for programs, and its title for eyes.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// As JSON and templates have it.
    pub key: &'static str,
    /// As the head of a table has it; an empty one is left out of tables.
    pub title: &'static str,
}

impl Column {
    /// A column whose title is its name.
    pub const fn new(key: &'static str, title: &'static str) -> Column {
        Column { key, title }
    }
}

/// Rows of the same kind.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
    /// What is printed instead of an empty table.
    pub empty: &'static str,
}

impl Listing {
    /// An empty list with these columns: name and title.
    pub fn new(columns: &[(&'static str, &'static str)], empty: &'static str) -> Listing {
        let columns = columns.iter().map(|(key, title)| Column::new(key, title)).collect();
        Listing { columns, rows: Vec::new(), empty }
    }

    /// Adds a row.
    pub fn push(&mut self, row: Vec<Cell>) {
        assert_eq!(row.len(), self.columns.len(), "a row has another shape than its list");
        self.rows.push(row);
    }

    /// The value of a row's column.
    pub fn cell(&self, row: &[Cell], key: &str) -> Cell {
        let place = self.columns.iter().position(|column| column.key == key);
        place.and_then(|place| row.get(place)).cloned().unwrap_or(Cell::None)
    }

    /// A row as an object.
    pub fn object(&self, row: &[Cell]) -> Value {
        let fields = self.columns.iter().zip(row).map(|(column, cell)| (column.key.to_owned(), cell.json()));
        Value::Object(fields.collect::<Map<_, _>>())
    }

    /// An array of objects.
    pub fn to_json(&self) -> Value {
        self.rows.iter().map(|row| self.object(row)).collect()
    }

    /// The table's lines.
    pub fn lines(&self, zone: i32, styled: bool) -> Vec<String> {
        if self.rows.is_empty() {
            return if self.empty.is_empty() { Vec::new() } else { vec![self.empty.to_owned()] };
        }
        let shown: Vec<usize> = (0..self.columns.len()).filter(|at| !self.columns[*at].title.is_empty()).collect();
        let texts: Vec<Vec<String>> =
            self.rows.iter().map(|row| shown.iter().map(|at| row[*at].human(zone)).collect()).collect();
        let right: Vec<bool> = shown
            .iter()
            .map(|at| {
                self.rows.iter().all(|row| row[*at].is_number() || row[*at] == Cell::None)
                    && self.rows.iter().any(|row| row[*at].is_number())
            })
            .collect();
        let widths: Vec<usize> = (0..shown.len())
            .map(|at| {
                let widest = texts.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
                widest.min(WIDTH_MAX).max(self.columns[shown[at]].title.chars().count())
            })
            .collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut line = String::new();
            for (at, cell) in cells.enumerate() {
                let blanks = " ".repeat(widths[at].saturating_sub(cell.chars().count()));
                let (before, behind) = if right[at] { (blanks.as_str(), "") } else { ("", blanks.as_str()) };
                line.extend([before, cell, behind, GAP]);
            }
            line.trim_end().to_owned()
        };
        let head = line(&mut shown.iter().map(|at| self.columns[*at].title));
        let body = texts.iter().map(|row| line(&mut row.iter().map(String::as_str)));
        std::iter::once(bold(&head, styled)).chain(body).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_at_the_right_and_texts_at_the_left() {
        let mut listing = Listing::new(&[("topic", "TOPIC"), ("lag", "LAG"), ("hidden", "")], "nothing");
        assert_eq!(listing.lines(0, false), ["nothing"]);
        listing.push(vec![Cell::text("Orders"), Cell::Number(7), Cell::None]);
        listing.push(vec![Cell::text("a"), Cell::Number(1234), Cell::Flag(true)]);
        assert_eq!(listing.lines(0, false), ["TOPIC    LAG", "Orders     7", "a       1234"]);
        let json = r#"[{"topic":"Orders","lag":7,"hidden":null},{"topic":"a","lag":1234,"hidden":true}]"#;
        assert_eq!(listing.to_json().to_string(), json);
    }
}
