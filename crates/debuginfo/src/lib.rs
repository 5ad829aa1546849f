//! BTF, ELF, kallsyms and tracefs formats to types, addresses and symbols.
