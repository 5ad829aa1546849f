//! Attributes: how far one can rely on a name, on what it means, and on which systems it is there. Owns the words and their order.

use std::fmt;

/// Stabilities, the least first.
const STABILITIES: &[&str] =
    &["Internal", "Private", "Obsolete", "External", "Unstable", "Evolving", "Stable", "Standard"];
/// Classes of systems, the smallest first.
const CLASSES: &[&str] = &["Unknown", "CPU", "Platform", "Group", "ISA", "Common"];

/// What can be said of a name, each part as its place in the order: more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Of the name.
    pub name: u8,
    /// Of what it stands for.
    pub data: u8,
    /// Of where it is there.
    pub class: u8,
}

impl Attributes {
    /// What D itself defines.
    pub const STABLE: Attributes = Attributes { name: 6, data: 6, class: 5 };
    /// What the kernel's own code happens to be.
    pub const PRIVATE: Attributes = Attributes { name: 1, data: 1, class: 0 };

    /// Reads `Stable/Evolving/Common`.
    pub fn parse(text: &str) -> Option<Attributes> {
        let mut parts = text.split('/');
        let mut next = |of: &[&str]| {
            let word = parts.next()?;
            of.iter().position(|known| known.eq_ignore_ascii_case(word)).map(|at| at as u8)
        };
        let attributes = Attributes { name: next(STABILITIES)?, data: next(STABILITIES)?, class: next(CLASSES)? };
        parts.next().is_none().then_some(attributes)
    }

    /// What can be said of something that needs both.
    pub fn min(self, other: Attributes) -> Attributes {
        Attributes {
            name: self.name.min(other.name),
            data: self.data.min(other.data),
            class: self.class.min(other.class),
        }
    }

    /// Whether no part is less than the other's.
    pub fn covers(self, least: Attributes) -> bool {
        self.min(least) == least
    }
}

impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |of: &'static [&'static str], at: u8| of.get(usize::from(at)).copied().unwrap_or("");
        write!(f, "{}/{}/{}", word(STABILITIES, self.name), word(STABILITIES, self.data), word(CLASSES, self.class))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_order() {
        assert_eq!(Attributes::parse("Stable/Stable/Common"), Some(Attributes::STABLE));
        assert_eq!(Attributes::parse("stable/stable/common"), Some(Attributes::STABLE));
        for wrong in ["", "Stable", "Stable/Stable", "Stable/Stable/Common/x", "Stable/Common/Stable"] {
            assert_eq!(Attributes::parse(wrong), None, "{wrong}");
        }
        let evolving = Attributes::parse("Evolving/Evolving/ISA").unwrap();
        assert!(Attributes::STABLE.covers(evolving) && !Attributes::PRIVATE.covers(evolving));
        assert_eq!(Attributes::STABLE.min(evolving).to_string(), "Evolving/Evolving/ISA");
    }
}
