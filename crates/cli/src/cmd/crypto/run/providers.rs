//! Which provider serves each mechanism, and why.

use cipher::{Error, Mechanism, Policy, Provider};
use serde_json::json;

use crate::show::json;
use crate::show::table::{self, Column};

pub(super) fn show(policy: &Policy, json: bool) -> String {
    match json {
        true => show_json(policy),
        false => show_text(policy),
    }
}

fn show_text(policy: &Policy) -> String {
    let columns = [Column::left("PROVIDER"), Column::left("WHAT IT IS")];
    let rows: Vec<Vec<String>> = Provider::ALL
        .iter()
        .map(|provider| vec![provider.to_string(), provider.description()])
        .collect();
    let providers = table::show(&columns, &rows, false);

    let columns = [
        Column::left("MECHANISM"),
        Column::left("PROVIDER"),
        Column::left("WHY"),
        Column::left("OTHERS"),
    ];
    let rows: Vec<Vec<String>> = Mechanism::all()
        .map(|mechanism| {
            let served = policy.provider(mechanism);
            let others = mechanism.providers().iter().filter(|other| {
                let is_free = other.is_available() && !policy.is_disabled(**other, mechanism);
                is_free && served != Ok(**other)
            });
            let others: Vec<&str> = others.map(|other| other.name()).collect();
            vec![
                mechanism.to_string(),
                served.map_or("-", Provider::name).into(),
                why(policy, mechanism),
                if others.is_empty() {
                    "-".into()
                } else {
                    others.join(" ")
                },
            ]
        })
        .collect();
    let mechanisms = table::show(&columns, &rows, false);
    let fips = match policy.is_fips() {
        true => "on: only approved mechanisms",
        false => "off",
    };
    format!(
        "{providers}\nhardware: {}\nFIPS mode: {fips}\n\n{mechanisms}",
        cipher::hardware()
    )
}

/// What decided who serves a mechanism.
fn why(policy: &Policy, mechanism: Mechanism) -> String {
    let served = match policy.provider(mechanism) {
        Ok(served) => served,
        Err(Error::NotApproved { .. }) => return "not approved".into(),
        Err(_) => return "all are disabled".into(),
    };
    let before = mechanism.providers().iter().take_while(|p| **p != served);
    let reasons: Vec<String> = before
        .map(|provider| match provider.is_available() {
            true => format!("{provider} is disabled"),
            false => format!("{provider} is not available"),
        })
        .collect();
    match (reasons.is_empty(), mechanism.providers()) {
        (true, [_]) => "the only one".into(),
        (true, _) => "first choice".into(),
        (false, _) => reasons.join(", "),
    }
}

fn show_json(policy: &Policy) -> String {
    let hardware = cipher::hardware();
    let provider = |provider: &Provider| {
        json!({
            "name": provider.name(),
            "description": provider.description(),
            "built": provider.is_available(),
        })
    };
    let mechanism = |mechanism: Mechanism| {
        let all = mechanism.providers().iter();
        let disabled = all.clone().filter(|p| policy.is_disabled(**p, mechanism));
        json!({
            "name": mechanism.to_string(),
            "provider": policy.provider(mechanism).ok().map(Provider::name),
            "why": why(policy, mechanism),
            "approved": mechanism.is_approved(),
            "providers": all.map(|p| p.name()).collect::<Vec<_>>(),
            "disabled": disabled.map(|p| p.name()).collect::<Vec<_>>(),
        })
    };
    json::show(&json!({
        "fips": policy.is_fips(),
        "hardware": { "features": hardware.features, "disabled": hardware.disabled },
        "providers": Provider::ALL.iter().map(provider).collect::<Vec<_>>(),
        "mechanisms": Mechanism::all().map(mechanism).collect::<Vec<_>>(),
    }))
}
