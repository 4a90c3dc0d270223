//! Tables and their columns.

use std::collections::BTreeMap;

use hocket_des::{Duration, Time};

use crate::JobId;

/// The values of one column.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the variants are named after their types")]
pub enum Column {
    U64(Vec<u64>),
    I64(Vec<i64>),
    U32(Vec<u32>),
    F64(Vec<f64>),
    Bool(Vec<bool>),
    /// Numbers that some rows lack.
    MaybeF64(Vec<Option<f64>>),
    /// Points in time, exact in picoseconds; tables show seconds.
    Time(Vec<Time>),
    /// The value of row i is `dictionary[codes[i]]`.
    Str {
        codes: Vec<u32>,
        dictionary: Vec<String>,
    },
}

/// Columns of one length, with names that carry their units.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Unique among the tables of a run.
    pub name: &'static str,
    /// Names and values, in the order in which they are shown.
    pub columns: Vec<(&'static str, Column)>,
}

impl Column {
    /// A column of whole numbers.
    pub fn of_u64<Row>(rows: &[Row], value: impl Fn(&Row) -> u64) -> Self {
        Self::U64(rows.iter().map(value).collect())
    }

    /// A column of points in time.
    pub fn of_times<Row>(rows: &[Row], value: impl Fn(&Row) -> Time) -> Self {
        Self::Time(rows.iter().map(value).collect())
    }

    /// A column of durations, in seconds.
    pub fn of_seconds<Row>(rows: &[Row], value: impl Fn(&Row) -> Duration) -> Self {
        Self::F64(rows.iter().map(|row| value(row).as_secs_f64()).collect())
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::U64(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::U32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::Bool(values) => values.len(),
            Self::MaybeF64(values) => values.len(),
            Self::Time(values) => values.len(),
            Self::Str { codes, .. } => codes.len(),
        }
    }

    /// Whether the column has no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Table {
    /// The number of rows of each column.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }

    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|(known, _)| *known == name).map(|(_, column)| column)
    }
}

pub(super) fn job_column<Row>(
    rows: &[Row],
    names: &[String],
    job: impl Fn(&Row) -> JobId,
) -> Column {
    let codes = rows.iter().map(|row| job(row).code()).collect();
    Column::Str { codes, dictionary: names.to_vec() }
}

// The dictionary is in order of first appearance, and so does not depend on the order of the map.
pub(super) fn text_column<'a>(texts: impl Iterator<Item = &'a str>) -> Column {
    let mut known = BTreeMap::new();
    let mut dictionary = Vec::new();
    let mut last = ("", 0);
    let codes = texts.map(|text| {
        // Rows mostly come in runs with the same text, which a comparison finds faster than a map.
        if std::ptr::eq(text, last.0) {
            return last.1;
        }
        let code = *known.entry(text).or_insert_with(|| {
            dictionary.push(text.to_owned());
            dictionary.len() as u32 - 1
        });
        last = (text, code);
        code
    });
    let codes = codes.collect();
    Column::Str { codes, dictionary }
}
