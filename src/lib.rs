//! metaq
