//! Which messages a subscription wants.
