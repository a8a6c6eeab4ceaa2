//! Messages: stored records, properties, batches, ids.
