//! `doctor`: whether this machine is fit to keep data with Strongroom. Lowest first: `machine` reads facts,
//! `checks` judges them, `run` prints.

pub(super) mod args;
mod checks;
mod machine;
pub(super) mod run;
