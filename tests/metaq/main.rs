//! Tests against byte vectors, corpora and the public surface, in one binary.

mod vectors;

mod message;
mod bodies;
