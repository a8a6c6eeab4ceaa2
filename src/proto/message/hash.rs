//! Java's string hash, on which tags, index keys and queue choice rest.

/// `String.hashCode` of Java: `h = 31 * h + unit` over UTF-16 units, wrapping at 32 bits.
pub fn java_hash(text: &str) -> i32 {
    extend(0, text)
}

/// The hash of the text hashed so far with `text` behind it: `java_hash("ab") == extend(java_hash("a"), "b")`.
pub fn extend(hash: i32, text: &str) -> i32 {
    if text.is_ascii() {
        // Four at a time: their products do not wait for each other.
        let (fours, rest) = text.as_bytes().as_chunks::<4>();
        let hash = fours.iter().fold(hash, |hash, four| {
            let [a, b, c, d] = four.map(i32::from);
            hash.wrapping_mul(31 * 31 * 31 * 31).wrapping_add(a * (31 * 31 * 31) + b * (31 * 31) + c * 31 + d)
        });
        return rest.iter().fold(hash, |hash, byte| step(hash, u16::from(*byte)));
    }
    text.encode_utf16().fold(hash, step)
}

fn step(hash: i32, unit: u16) -> i32 {
    hash.wrapping_mul(31).wrapping_add(i32::from(unit))
}

/// The code of a tag in a consume-queue entry: its hash, sign-extended; 0 for no tag.
pub fn tags_code(tag: &str) -> i64 {
    i64::from(java_hash(tag))
}

/// The hash of `topic#key` in an index file: never negative. The one hash without a positive counterpart, −2³¹, is 0.
pub fn index_key_hash(topic: &str, key: &str) -> u32 {
    let hash = extend(extend(java_hash(topic), "#"), key);
    hash.checked_abs().unwrap_or(0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_utf16_units() {
        assert_eq!(java_hash(""), 0);
        assert_eq!(java_hash("TagA"), 2_598_919);
        assert_eq!(java_hash("🚀tag"), 1_280_754_391, "a surrogate pair is two units");
        assert_eq!(tags_code("polygenelubricants"), -2_147_483_648);
    }

    /// IDX-4: a key whose hash is the smallest 32-bit number crashed the indexer.
    #[test]
    fn idx_4_the_smallest_hash_is_indexed_as_zero() {
        assert_eq!(java_hash("TopicTest#vlsoaerz"), i32::MIN);
        assert_eq!(index_key_hash("TopicTest", "vlsoaerz"), 0);
        assert_eq!(index_key_hash("TopicTest", "order-1001"), 1_043_804_929);
    }
}
