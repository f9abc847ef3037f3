//! The provider that serves each mechanism with each length of keys, and why.

use cipher::{Error, Mechanism, Policy, Provider};
use console::outcome::Result;
use console::show::json;
use console::show::table::{self, Column};
use serde_json::json;

use super::measure;

/// A mechanism with keys of one length.
struct Choice {
    mechanism: Mechanism,
    /// In bits, of ciphers that take several lengths.
    key_bits: Option<usize>,
    /// The providers that have it, the first choice first.
    providers: Vec<Provider>,
    served: cipher::Result<Provider>,
    /// MB/s, if it was measured.
    rate: Option<f64>,
}

pub(super) fn show(policy: &Policy, with_rates: bool, json: bool) -> Result<String> {
    let mut choices = Vec::new();
    for mechanism in Mechanism::all() {
        let lens = mechanism.key_lens().iter().map(|len| Some(*len));
        let lens: Vec<Option<usize>> = lens.collect();
        let lens = if lens.is_empty() { vec![None] } else { lens };
        for len in lens {
            let mut choice = Choice::new(policy, mechanism, len);
            if let (true, Ok(provider)) = (with_rates, &choice.served) {
                choice.rate = measure::rate(mechanism, len, *provider)?;
            }
            choices.push(choice);
        }
    }
    Ok(match json {
        true => show_json(policy, &choices),
        false => show_text(policy, &choices, with_rates),
    })
}

impl Choice {
    fn new(policy: &Policy, mechanism: Mechanism, key_len: Option<usize>) -> Choice {
        let (providers, served) = match key_len {
            Some(len) => (
                mechanism.providers_with(len),
                policy.provider_with(mechanism, len),
            ),
            None => (mechanism.providers().to_vec(), policy.provider(mechanism)),
        };
        Choice {
            mechanism,
            key_bits: key_len.map(|len| 8 * len),
            providers,
            served,
            rate: None,
        }
    }

    /// The reason of the choice.
    fn why(&self) -> String {
        let served = match &self.served {
            Ok(served) => served,
            Err(Error::NotApproved { .. }) => return "not approved".into(),
            Err(_) => return "all are disabled".into(),
        };
        let before = self.providers.iter().take_while(|p| *p != served);
        let reasons: Vec<String> = before
            .map(|provider| match provider.is_available() {
                true => format!("{provider} is disabled"),
                false => format!("{provider} is not available"),
            })
            .collect();
        match (reasons.is_empty(), &self.providers[..]) {
            (true, [_]) => "the only one".into(),
            (true, _) => "first choice".into(),
            (false, _) => reasons.join(", "),
        }
    }

    /// The providers that would take over, in this order.
    fn others(&self, policy: &Policy) -> String {
        let others = self.providers.iter().filter(|other| {
            let is_free = other.is_available() && !policy.is_disabled(**other, self.mechanism);
            is_free && self.served != Ok(**other)
        });
        let others: Vec<&str> = others.map(|other| other.name()).collect();
        match others.is_empty() {
            true => "-".into(),
            false => others.join(" "),
        }
    }
}

fn show_text(policy: &Policy, choices: &[Choice], with_rates: bool) -> String {
    let columns = [Column::left("PROVIDER"), Column::left("WHAT IT IS")];
    let rows: Vec<Vec<String>> = Provider::ALL
        .iter()
        .map(|provider| vec![provider.to_string(), provider.description()])
        .collect();
    let providers = table::show(&columns, &rows, false);

    let mut columns = vec![
        Column::left("MECHANISM"),
        Column::right("KEY"),
        Column::left("PROVIDER"),
        Column::left("WHY"),
        Column::left("OTHERS"),
    ];
    if with_rates {
        columns.insert(3, Column::right("MB/S"));
    }
    let row = |choice: &Choice| {
        let served = choice.served.as_ref().ok();
        let mut row = vec![
            choice.mechanism.to_string(),
            choice.key_bits.map_or("-".into(), |bits| bits.to_string()),
            served.map_or("-", |served| served.name()).into(),
            choice.why(),
            choice.others(policy),
        ];
        if with_rates {
            let rate = choice.rate.map_or("-".into(), |rate| format!("{rate:.0}"));
            row.insert(3, rate);
        }
        row
    };
    let rows: Vec<Vec<String>> = choices.iter().map(row).collect();
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

fn show_json(policy: &Policy, choices: &[Choice]) -> String {
    let hardware = cipher::hardware();
    let provider = |provider: &Provider| {
        json!({
            "name": provider.name(),
            "description": provider.description(),
            "built": provider.is_available(),
        })
    };
    let mechanism = |choice: &Choice| {
        let all = choice.providers.iter();
        let is_disabled = |p: &&Provider| policy.is_disabled(**p, choice.mechanism);
        let disabled = all.clone().filter(is_disabled);
        json!({
            "name": choice.mechanism.to_string(),
            "key_bits": choice.key_bits,
            "provider": choice.served.as_ref().ok().map(|served| served.name()),
            "why": choice.why(),
            "approved": choice.mechanism.is_approved(),
            "providers": all.map(|p| p.name()).collect::<Vec<_>>(),
            "disabled": disabled.map(|p| p.name()).collect::<Vec<_>>(),
            "mb_s": choice.rate,
        })
    };
    json::show(&json!({
        "fips": policy.is_fips(),
        "hardware": { "features": hardware.features, "disabled": hardware.disabled },
        "providers": Provider::ALL.iter().map(provider).collect::<Vec<_>>(),
        "mechanisms": choices.iter().map(mechanism).collect::<Vec<_>>(),
    }))
}
