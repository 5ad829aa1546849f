//! A function's signature, and where its parameters are when its first instruction has not run yet, as far as DWARF says it better
//! than the calling convention.

use super::{DEPTH, Die, Dwarf, Entry, Unit};
use crate::error::Result;
use gimli::{AttributeValue, Operation};

/// A function's signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its parameters, in order.
    pub params: Vec<Param>,
    /// The type it returns; none for `void`.
    pub ret: Option<Die>,
    /// Whether more arguments may follow.
    pub varargs: bool,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name, or empty.
    pub name: String,
    /// Its type; none where that is not said.
    pub ty: Option<Die>,
    /// Where it is at the function's entry.
    pub at_entry: AtEntry,
}

/// What DWARF says about a parameter's place at the entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AtEntry {
    /// Nothing, or where it will be later: the calling convention knows.
    Convention,
    /// In a register, by its DWARF number.
    Register(u16),
    /// In memory, so many bytes above the address of the first stack argument.
    Stack(u64),
    /// It is this constant in all calls.
    Constant(i64),
    /// Somewhere that takes more than that to say.
    Elsewhere,
    /// Not passed: the compiler has removed it.
    Removed,
}

impl Dwarf {
    /// Reads the signature of the function at an entry, whose first instruction is at `vaddr`.
    ///
    /// # Errors
    /// Malformed information.
    pub fn function(&self, die: Die, vaddr: u64) -> Result<Function> {
        let (unit, entry) = self.entry(die)?;
        let own = self.parts(unit, &entry)?;
        let is_param = |part: &&Entry| part.tag() == gimli::DW_TAG_formal_parameter;
        let mut function = Function {
            params: Vec::new(),
            ret: None,
            varargs: own.iter().any(|part| part.tag() == gimli::DW_TAG_unspecified_parameters),
        };
        // Where the frame base is the call frame's address, offsets from it tell what is on the caller's stack.
        let frame = entry.attr(gimli::DW_AT_frame_base).and_then(|base| base.exprloc_value());
        let by_frame = frame
            .is_some_and(|base| matches!(base.operations(unit.encoding()).next(), Ok(Some(Operation::CallFrameCFA))));
        let mut seen = Vec::new();
        for part in own.iter().filter(is_param) {
            let origin = self.origin(unit, part)?;
            seen.extend(origin);
            let (name, ty) = self.described(unit, part)?;
            function.params.push(Param { name, ty, at_entry: self.at_entry(unit, part, vaddr, by_frame) });
        }
        // What the function is an instance, or the definition, of.
        let mut general = self.origin(unit, &entry)?;
        let (mut type_unit, mut typed) = (unit, entry.clone());
        for _ in 0..DEPTH {
            let Some(die) = general else { break };
            let (unit, entry) = self.entry(die)?;
            // A clone keeps the parameters that it still needs; those of the original that it lacks are gone.
            if function.params.is_empty() || !seen.is_empty() {
                let parts = self.parts(unit, &entry)?;
                for (n, part) in parts.iter().filter(is_param).enumerate() {
                    let known = self.die(unit, part.offset()).is_some_and(|die| seen.contains(&die));
                    if !known {
                        let (name, ty) = self.described(unit, part)?;
                        let at = n.min(function.params.len());
                        function.params.insert(at, Param { name, ty, at_entry: AtEntry::Removed });
                    }
                }
                function.varargs |= parts.iter().any(|part| part.tag() == gimli::DW_TAG_unspecified_parameters);
            }
            if !typed.has_attr(gimli::DW_AT_type) {
                (type_unit, typed) = (unit, entry.clone());
            }
            general = self.origin(unit, &entry)?;
        }
        function.ret = self.type_of(type_unit, &typed)?;
        Ok(function)
    }

    /// The entry that another is an instance or the definition of.
    fn origin(&self, unit: &Unit, entry: &Entry) -> Result<Option<Die>> {
        let value = entry.attr_value(gimli::DW_AT_abstract_origin);
        let value = value.or_else(|| entry.attr_value(gimli::DW_AT_specification));
        value.map(|value| self.reference(unit, value)).transpose()
    }

    /// A parameter's name and type, its own or its origin's.
    fn described(&self, unit: &Unit, part: &Entry) -> Result<(String, Option<Die>)> {
        let (mut name, mut ty) = (self.name(unit, part), self.type_of(unit, part)?);
        let mut general = self.origin(unit, part)?;
        for _ in 0..DEPTH {
            let Some(die) = general.filter(|_| name.is_none() || ty.is_none()) else { break };
            let (unit, entry) = self.entry(die)?;
            name = name.or_else(|| self.name(unit, &entry));
            ty = ty.or(self.type_of(unit, &entry)?);
            general = self.origin(unit, &entry)?;
        }
        Ok((name.unwrap_or_default(), ty))
    }

    fn at_entry(&self, unit: &Unit, part: &Entry, vaddr: u64, by_frame: bool) -> AtEntry {
        if let Some(value) = part.attr(gimli::DW_AT_const_value) {
            return value.sdata_value().map_or(AtEntry::Elsewhere, AtEntry::Constant);
        }
        match part.attr_value(gimli::DW_AT_location) {
            // One place for the whole function is its home, which a caller has filled only if it is the caller's.
            Some(AttributeValue::Exprloc(expression)) => match self.place(unit, expression, by_frame) {
                found @ AtEntry::Stack(_) => found,
                _ => AtEntry::Convention,
            },
            Some(value) => {
                let Ok(Some(mut list)) = self.sections.attr_locations(unit, value) else { return AtEntry::Convention };
                while let Ok(Some(entry)) = list.next() {
                    if (entry.range.begin..entry.range.end).contains(&vaddr) {
                        return self.place(unit, entry.data, by_frame);
                    }
                }
                AtEntry::Convention
            }
            None => AtEntry::Convention,
        }
    }

    fn place(&self, unit: &Unit, expression: gimli::Expression<super::Reader>, by_frame: bool) -> AtEntry {
        let mut operations = expression.operations(unit.encoding());
        let first = operations.next();
        let only = matches!(operations.next(), Ok(None));
        match first {
            Ok(Some(Operation::Register { register })) if only => AtEntry::Register(register.0),
            Ok(Some(Operation::FrameOffset { .. })) if only && !by_frame => AtEntry::Convention,
            Ok(Some(Operation::FrameOffset { offset })) if only => match u64::try_from(offset) {
                Ok(offset) => AtEntry::Stack(offset),
                Err(_) => AtEntry::Convention,
            },
            _ => AtEntry::Elsewhere,
        }
    }
}
