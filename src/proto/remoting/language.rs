//! The language a peer says it is written in.

/// `language` of a header. Servers answer [`Language::Java`], the only name that every client knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Language {
    /// `JAVA`, and what a header without the member means.
    #[default]
    Java,
    /// `CPP`: the C++ client and the Python and Node clients built on it.
    Cpp,
    /// `DOTNET`.
    DotNet,
    /// `PYTHON`.
    Python,
    /// `DELPHI`.
    Delphi,
    /// `ERLANG`.
    Erlang,
    /// `RUBY`.
    Ruby,
    /// `OTHER`, and every name and number that is not in this list.
    Other,
    /// `HTTP`.
    Http,
    /// `GO`.
    Go,
    /// `PHP`.
    Php,
    /// `OMS`.
    Oms,
    /// `RUST`.
    Rust,
    /// `NODE_JS`.
    NodeJs,
}

/// Every language with its name; the position is the byte of the binary header.
const NAMES: [(Language, &str); 14] = [
    (Language::Java, "JAVA"),
    (Language::Cpp, "CPP"),
    (Language::DotNet, "DOTNET"),
    (Language::Python, "PYTHON"),
    (Language::Delphi, "DELPHI"),
    (Language::Erlang, "ERLANG"),
    (Language::Ruby, "RUBY"),
    (Language::Other, "OTHER"),
    (Language::Http, "HTTP"),
    (Language::Go, "GO"),
    (Language::Php, "PHP"),
    (Language::Oms, "OMS"),
    (Language::Rust, "RUST"),
    (Language::NodeJs, "NODE_JS"),
];

impl Language {
    /// The name in a JSON header.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// The byte in a binary header.
    pub fn byte(self) -> u8 {
        self as u8
    }

    /// From the byte of a binary header.
    pub fn from_byte(byte: u8) -> Self {
        NAMES.get(usize::from(byte)).map_or(Self::Other, |(language, _)| *language)
    }

    /// From the text in a JSON header, which is a name or, from some clients, the number.
    pub fn from_text(text: &str) -> Self {
        if let Some((language, _)) = NAMES.iter().find(|(_, name)| *name == text) {
            return *language;
        }
        text.parse().map_or(Self::Other, Self::from_byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_bytes_lead_back() {
        for (position, (language, name)) in NAMES.into_iter().enumerate() {
            assert_eq!(usize::from(language.byte()), position);
            assert_eq!(Language::from_byte(language.byte()), language);
            assert_eq!(Language::from_text(name), language);
            assert_eq!(Language::from_text(&position.to_string()), language);
            assert_eq!(language.name(), name);
        }
    }

    #[test]
    fn the_unheard_of_is_other() {
        assert_eq!(Language::from_text("ZIG"), Language::Other);
        assert_eq!(Language::from_text("-1"), Language::Other);
        assert_eq!(Language::from_text("99"), Language::Other);
        assert_eq!(Language::from_byte(200), Language::Other);
    }
}
