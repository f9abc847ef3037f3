//! The requests to object stores, and what they cost by a list of prices.

use protocol::api::StoreIo;

use crate::ops::devices::stores::store_outages::requests;

/// The file with the prices, unless [`PRICES_VARIABLE`] names another one.
const PRICES_FILE: &str = "/etc/strongroom/store-prices";
/// The variable of the daemon that names a file with prices.
const PRICES_VARIABLE: &str = "STRONGROOM_STORE_PRICES";

/// The prices of a store: for 1,000 requests, and for 1 GB of received bytes.
#[derive(Clone, Debug, Default, PartialEq)]
struct StorePrices {
    put: f64,
    get: f64,
    list: f64,
    delete: f64,
    out: f64,
    currency: String,
}

/// The requests to the store of an open device, with their cost. `None` if it lies on none.
pub(crate) fn store_io(path: &str) -> Option<StoreIo> {
    let totals = requests(path)?;
    let io = StoreIo {
        puts: totals.creates + totals.replaces,
        gets: totals.gets,
        lists: totals.lists,
        deletes: totals.deletes,
        repeated: totals.outages,
        sent: totals.bytes_sent,
        received: totals.bytes_received,
        cost: None,
        currency: None,
    };
    Some(priced(io, path))
}

/// The requests to a store with their cost, if the prices are known.
pub(crate) fn priced(mut io: StoreIo, path: &str) -> StoreIo {
    let file = std::env::var_os(PRICES_VARIABLE).unwrap_or_else(|| PRICES_FILE.into());
    let prices = std::fs::read_to_string(file).ok();
    if let Some(prices) = prices.and_then(|text| prices_of(&text, path)) {
        io.cost = Some(prices.cost(&io));
        io.currency = Some(prices.currency);
    }
    io
}

impl StorePrices {
    fn cost(&self, io: &StoreIo) -> f64 {
        let thousands = |count: u64, price: f64| count as f64 / 1e3 * price;
        thousands(io.puts, self.put)
            + thousands(io.gets, self.get)
            + thousands(io.lists, self.list)
            + thousands(io.deletes, self.delete)
            + io.received as f64 / 1e9 * self.out
    }
}

/// The prices of the line with the longest beginning of an address. A line that cannot be read has none.
fn prices_of(text: &str, address: &str) -> Option<StorePrices> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.starts_with('#'));
    let mut found = lines.filter_map(|line| line.split_once(char::is_whitespace));
    let begins = |start: &str| {
        let rest = address.strip_prefix(start.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut best: Option<(usize, StorePrices)> = None;
    for (start, words) in found.by_ref().filter(|(start, _)| begins(start)) {
        let Some(prices) = parse(words) else { continue };
        if best.as_ref().is_none_or(|(len, _)| start.len() > *len) {
            best = Some((start.len(), prices));
        }
    }
    best.map(|(_, prices)| prices)
}

fn parse(words: &str) -> Option<StorePrices> {
    let mut prices = StorePrices::default();
    for word in words.split_whitespace() {
        let (name, value) = word.split_once('=')?;
        let price = || {
            value
                .parse()
                .ok()
                .filter(|price: &f64| price.is_finite() && *price >= 0.0)
        };
        match name {
            "put" => prices.put = price()?,
            "get" => prices.get = price()?,
            "list" => prices.list = price()?,
            "delete" => prices.delete = price()?,
            "out" => prices.out = price()?,
            "currency" => prices.currency = value.to_owned(),
            _ => return None,
        }
    }
    Some(prices)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# prices of October
s3://bucket put=0.005 get=0.0004 list=0.005 out=0.09 currency=USD
s3://bucket/near put=1 currency=EUR
s3://wrong put=much
";

    #[test]
    fn the_longest_beginning_has_the_prices() {
        let far = prices_of(TEXT, "s3://bucket/tank").unwrap();
        assert_eq!((far.put, far.currency.as_str()), (0.005, "USD"));
        let near = prices_of(TEXT, "s3://bucket/near/tank").unwrap();
        assert_eq!((near.put, near.get), (1.0, 0.0));
        assert_eq!(prices_of(TEXT, "s3://bucket2/tank"), None);
        assert_eq!(prices_of(TEXT, "s3://wrong/tank"), None);
    }

    #[test]
    fn a_month_is_added_up() {
        let prices = prices_of(TEXT, "s3://bucket/tank").unwrap();
        let io = StoreIo {
            puts: 2_000,
            gets: 10_000,
            received: 1_000_000_000,
            ..StoreIo::default()
        };
        assert!((prices.cost(&io) - (0.01 + 0.004 + 0.09)).abs() < 1e-9);
    }
}
