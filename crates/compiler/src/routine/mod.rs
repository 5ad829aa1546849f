//! Subroutines: what they mean, and their code.

mod json;
pub mod meaning;
