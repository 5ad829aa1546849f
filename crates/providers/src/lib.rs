//! The probe providers, one file each.
