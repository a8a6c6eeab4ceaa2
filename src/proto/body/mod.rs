//! JSON bodies of requests and responses.
