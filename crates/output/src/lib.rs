//! Record bytes to events; aggregations, printf, text and JSON.
