use super::*;

#[test]
fn each_name_means_one_property() {
    for (at, property) in PROPERTIES.iter().enumerate() {
        for name in [property.name, property.short] {
            let other = PROPERTIES
                .iter()
                .position(|other| other.name == name || other.short == name);
            assert_eq!(other, Some(at), "{name}");
        }
    }
}

#[test]
fn rows_are_consistent() {
    for property in PROPERTIES {
        let name = property.name;
        assert!(
            property.help.len() <= 75,
            "{name}: too long for a line of help"
        );
        assert!(property.help.ends_with('.'), "{name}");
        if property.settable == Settable::Never {
            assert_eq!(property.tenant, Tenant::No, "{name}");
        }
        if let Values::Words(words) = property.values
            && property.settable != Settable::Never
        {
            assert!(words.contains(&property.default), "{name}");
        }
    }
}

#[test]
fn short_names_and_titles() {
    assert_eq!(Property::find("refer").unwrap().name, "referenced");
    assert_eq!(Property::find("referenced").unwrap().title(), "REFER");
    assert_eq!(Property::find("mountpoint").unwrap().title(), "MOUNTPOINT");
    assert!(Property::find("").is_none());
    assert!(Property::settable("used").is_none() && Property::is_computed("used"));
}
