//! The order of pools and mappings that lie on each other: those below are opened first and closed last.

use std::path::Path;

use protocol::device_name::DeviceName;

/// A pool or a mapping on which others can lie, by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Carrier {
    Pool(String),
    Mapping(String),
}

/// The pools and mappings directly below devices with these paths.
pub(crate) fn below<'a>(paths: impl Iterator<Item = &'a Path>) -> Vec<Carrier> {
    let carrier = |path| match DeviceName::parse(path) {
        DeviceName::Volume(volume) => {
            let pool = volume.split(['/', '@']).next()?;
            Some(Carrier::Pool(pool.into()))
        }
        DeviceName::Luks(mapping) => Some(Carrier::Mapping(mapping.into())),
        _ => None,
    };
    paths.filter_map(carrier).collect()
}

/// Things in layers, from the name of each and the names of those below it. A thing in one layer lies on things in
/// earlier layers; those in the first layer do not.
pub(crate) fn by_layer<T>(
    things: Vec<T>,
    name: impl Fn(&T) -> Carrier,
    below: impl Fn(&T) -> Vec<Carrier>,
) -> Vec<Vec<T>> {
    let mut rest: Vec<_> = { things.into_iter() }
        .map(|thing| (below(&thing), thing))
        .collect();
    let mut layers = Vec::new();
    while !rest.is_empty() {
        let names: Vec<Carrier> = rest.iter().map(|(_, thing)| name(thing)).collect();
        let (upper, lower): (Vec<_>, Vec<_>) = rest
            .into_iter()
            .partition(|(below, _)| below.iter().any(|name| names.contains(name)));
        // None lies on itself, whatever their devices are called.
        let (upper, lower) = match lower.is_empty() {
            true => (lower, upper),
            false => (upper, lower),
        };
        layers.push(lower.into_iter().map(|(_, thing)| thing).collect());
        rest = upper;
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_on_others_comes_after_these() {
        // Each lies on the next one, so the order of the names is the wrong one.
        let things = vec![
            ("a", "luks:b"),
            ("luks:b", "volume:c/deep/disk@snapshot"),
            ("c", "volume:d/disk"),
            ("d", "/dev/sdd"),
            ("e", "volume:gone/disk"),
            ("f", "luks:a"),
            ("luks:g", "luks:g"),
        ];
        let name = |thing: &(&str, &str)| match thing.0.strip_prefix("luks:") {
            Some(mapping) => Carrier::Mapping(mapping.into()),
            None => Carrier::Pool(thing.0.into()),
        };
        let below = |thing: &(&str, &str)| below([Path::new(thing.1)].into_iter());
        let layers = by_layer(things, name, below);
        let names = layers.iter().map(|layer| layer.iter().map(|thing| thing.0));
        let names: Vec<Vec<_>> = names.map(Iterator::collect).collect();
        assert_eq!(
            names,
            [
                vec!["d", "e", "f"],
                vec!["c"],
                vec!["luks:b"],
                vec!["a"],
                vec!["luks:g"]
            ]
        );
    }
}
