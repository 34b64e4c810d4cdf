//! Readers: from a recording's records to the steps that they stand for.

pub(crate) mod cursor;
pub(crate) mod flags;
pub(crate) mod l0;
pub(crate) mod l1;
pub(crate) mod recording;
pub(crate) mod section;
pub(crate) mod step;
pub(crate) mod step_order;
pub(crate) mod steps;
pub(crate) mod streams;
