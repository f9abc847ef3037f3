//! Tests of both spellings, and of what they refuse.

use super::*;

/// The sample of stmf-ha with its settings taken out of the comments.
const SAMPLE: &str = r#"# A target portal group is a set of IP addresses
target_portal_groups=(
	vmpool01_tpg
)
vmpool01_tpg_portals=(
	192.168.1.2
	192.168.2.2	# the other one
)
default_target_type=iscsi
default_tpg="vmpool01_tpg"
targets=(
	vmpool01
)
vmpool01_tpg=vmpool01_tpg
logical_units=(
	vmpool01/vmware/testvol_lun:00
	vmpool01/vmware/testvol_lun:01
)
host_groups=( vmware_hosts )
vmware_hosts_members=(
	iqn.1998-01.com.vmware:myvmhost1-01234567
	iqn.1998-01.com.vmware:myvmhost2-89ABCDEF
)
target_groups=(
	vmpool01_tg
)
vmpool01_tg_members=(
	vmpool01
)
views=(
	vmware_view
)
vmware_view_hg=vmware_hosts
vmware_view_tg='vmpool01_tg'
vmware_view_lu_prefix="vmpool01/vmware"
"#;

#[test]
fn the_sample_of_stmf_ha_is_understood() {
    let file = Spelling::Stmf.parse(SAMPLE.as_bytes()).unwrap();
    let portals = &file.portal_groups["vmpool01_tpg"].portals;
    assert_eq!(portals, &["192.168.1.2:3260", "192.168.2.2:3260"]);
    assert_eq!(file.portal_groups.len(), 1);
    let [target] = &file.targets[..] else {
        panic!("{file:?}");
    };
    assert_eq!(
        target.iscsi_name("tank"),
        "iqn.2026-01.io.github.strongroom:vmpool01"
    );
    let units = file.logical_units.unwrap();
    assert_eq!(units[1], (17, "vmpool01/vmware/testvol_lun:01".into()));
    let view = &file.views[0];
    let hosts = view.hosts.as_ref().unwrap();
    assert!(hosts.contains("iqn.1998-01.com.vmware:myvmhost2-89abcdef"));
    assert_eq!(view.prefix.as_deref(), Some("vmpool01/vmware"));
    assert!(view.targets.as_ref().unwrap().contains("vmpool01"));
}

#[test]
fn each_spelling_makes_the_other() {
    let items = Spelling::Stmf.read(SAMPLE.as_bytes()).unwrap();
    let toml = Spelling::Toml.write(&items).unwrap();
    assert!(toml.starts_with("target_portal_groups = [\"vmpool01_tpg\"]\nvmpool01_tpg_portals"));
    let back = Spelling::Toml.read(toml.as_bytes()).unwrap();
    let values =
        |items: &Items| HaFile::of(items).map(|file| (file.portal_groups, file.targets.len()));
    assert_eq!(values(&items), values(&back));
    let stmf = Spelling::Stmf.write(&back).unwrap();
    let again = Spelling::Stmf.read(stmf.as_bytes()).unwrap();
    assert_eq!(Spelling::Toml.write(&again).unwrap(), toml);
    let ours = Spelling::Toml.read(b"targets = [\"a\"]\na_chap = [\"u=file:///k\"]\n");
    let refused = Spelling::Stmf.write(&ours.unwrap()).unwrap_err();
    assert_eq!((refused.line, &*refused.noun), (2, "a_chap"));
}

#[test]
fn an_empty_file_is_a_target_called_after_the_pool() {
    for spelling in [Spelling::Toml, Spelling::Stmf] {
        let file = spelling.parse(b"# nothing\n").unwrap();
        assert_eq!(
            file.targets[0].iscsi_name("My_Pool"),
            "iqn.2026-01.io.github.strongroom:my-pool"
        );
        assert_eq!(file.portal_groups["default"], PortalGroup::default());
        assert_eq!((file.views.len(), file.logical_units), (1, None));
        assert_eq!(file.views[0], HaView::default());
    }
}

#[test]
fn what_a_shell_would_do_is_refused_with_its_line() {
    let refused = |text: &str| {
        let error = Spelling::Stmf.read(text.as_bytes()).unwrap_err();
        (error.line, error.noun)
    };
    for (text, line, noun) in [
        ("\ntargets = ( a )", 2, "targets"),
        ("rm -rf /", 1, "rm"),
        ("a=$(id)", 1, "a"),
        ("a=`id`", 1, "a"),
        ("a=\"$HOME\"", 1, "a"),
        ("a=( b\n c$d )", 2, "a"),
        ("a=b; id", 1, "a"),
        ("a=b id", 1, "a"),
        ("a=b#c", 1, "a"),
        ("a=( b", 1, "a"),
        ("a='b", 1, "a"),
        ("a=", 1, "a"),
        ("a=x[bc]", 1, "a"),
        ("if true", 1, "if"),
        ("a=b\na=c", 2, "a"),
        ("a+=(b)", 1, "a"),
        ("1a=b", 1, "1a"),
    ] {
        let (at, what) = refused(text);
        assert_eq!(at, line, "{text}");
        assert!(
            what == noun || what == format!("'{}'", &noun[..1]),
            "{text}: {what}"
        );
    }
}

#[test]
fn what_has_no_meaning_is_refused_with_its_line() {
    #[rustfmt::skip]
    let rows = [
        ("targets = [", 1, "the file"),
        ("x = 5", 1, "x"),
        ("[targets]\na = \"b\"", 1, "targets"),
        ("targets = [\n\"a\",\n7]", 3, "targets"),
        ("targets = [\"a\",\n\"a\"]", 2, "targets"),
        ("targets = [\"a\", \"A\"]", 1, "targets"),
        ("targets = []", 1, "targets"),
        ("targets = \"a\"", 1, "targets"),
        ("targets = [\"default\"]", 1, "targets"),
        ("targets = [\"a b\"]", 1, "targets"),
        ("\ncolour = \"red\"", 2, "colour"),
        ("b_tpg = \"default\"", 1, "b_tpg"),
        ("default_tpg = \"x\"", 1, "default_tpg"),
        ("default_target_type = \"fc\"", 1, "default_target_type"),
        ("targets = [\"a\"]\na_tpg = \"x\"", 2, "a_tpg"),
        ("target_portal_groups = [\"g\"]\ng_portals = [\"host:3260\"]", 2, "g_portals"),
        ("target_portal_groups = [\"g\"]\ng_portals = [\"1.2.3.4:0\"]", 2, "g_portals"),
        ("a_redirect = \"192.0.2.1\"", 1, "a_redirect"),
        ("target_portal_groups = [\"g\"]\ng_redirect = \"elsewhere\"", 2, "g_redirect"),
        ("target_portal_groups = [\"g\"]\ng_redirect = \"g\"", 2, "g_redirect"),
        ("target_portal_groups = [\"g\"]\ng_redirect = \"[::]\"", 2, "g_redirect"),
        ("target_portal_groups = [\"g\"]\ng_portals = [\"1.2.3.4\"]\ng_redirect = \"1.2.3.4\"", 3, "g_redirect"),
        ("target_portal_groups = [\"g\", \"h\"]\ng_redirect = \"h\"", 2, "g_redirect"),
        ("target_portal_groups = [\"g\"]\ng_redirect_permanently = true", 2, "g_redirect_permanently"),
        ("targets = [\"a\"]\na_iqn = \"disk\"", 2, "a_iqn"),
        ("targets = [\"a\", \"b\"]\na_iqn = \"iqn.x:b\"\nb_iqn = \"iqn.X:B\"", 1, "targets"),
        ("identities = [\"i\"]", 1, "identities"),
        ("identities = [\"i\"]\ni_lu = \"tank/a\"", 1, "identities"),
        ("identities = [\"i\"]\ni_lu = \"tank/a\"\ni_lun = \"16384\"", 3, "i_lun"),
        ("identities = [\"i\"]\ni_lu = \"tank/a\"\ni_naa = \"60\"", 3, "i_naa"),
        ("identities = [\"i\"]\ni_lu = \"tank/a\"\ni_serial = \" 1\"", 3, "i_serial"),
        ("identities = [\"i\"]\ni_lu = \"tank/a\"\ni_block_size = \"520\"", 3, "i_block_size"),
        (
            "identities = [\"i\",\n\"j\"]\ni_lu = \"tank/a\"\ni_serial = \"1\"\nj_lu = \"tank/b\"\nj_serial = \"1\"",
            2,
            "identities",
        ),
        ("host_groups = [\"h\"]", 1, "host_groups"),
        ("host_groups = [\"h\"]\nh_members = [\"bob\"]", 2, "h_members"),
        ("target_groups = [\"t\"]\nt_members = [\"bob\"]", 2, "t_members"),
        (
            "targets=[\"a\"]\nhost_groups = [\"h\"]\nh_members = [\"iqn.x:y\"]\ntarget_groups = [\"h\"]",
            4,
            "target_groups",
        ),
        ("views = [\"v\"]\nv_hg = \"nobody\"", 2, "v_hg"),
        ("views = [\"v\"]\nv_tg = \"nobody\"", 2, "v_tg"),
        ("views = [\"v\"]\nv_read_only = \"yes\"", 2, "v_read_only"),
    ];
    for (text, line, noun) in rows {
        let refused = Spelling::Toml.parse(text.as_bytes()).unwrap_err();
        assert_eq!(
            (refused.line, &*refused.noun),
            (line, noun),
            "{text}: {refused}"
        );
    }
    let long = vec![b'#'; LEN_MAX + 1];
    assert_eq!(Spelling::Toml.parse(&long).unwrap_err().line, 0);
    assert_eq!(Spelling::Stmf.parse(&[0xff]).unwrap_err().noun, "the file");
}

#[test]
fn a_portal_group_redirects_to_another_one_or_to_an_address() {
    let text = "target_portal_groups = [\"san\", \"front\", \"old\"]\nsan_portals = [\"192.0.2.1\"]\n\
        front_portals = [\"192.0.2.100\"]\nfront_redirect = \"san\"\nold_redirect = \"192.0.2.7\"\n\
        old_redirect_permanently = true\ntargets = [\"a\", \"b\"]\nb_tpg = \"old\"\n";
    let items = Spelling::Toml.read(text.as_bytes()).unwrap();
    let file = HaFile::of(&items).unwrap();
    let redirect = |group: &str| file.portal_groups[group].redirect.clone();
    assert_eq!(redirect("san"), None);
    let expected = Redirect {
        line: 4,
        to: RedirectTarget::Group("san".into()),
        permanently: false,
    };
    assert_eq!(redirect("front"), Some(expected));
    let expected = Redirect {
        line: 5,
        to: RedirectTarget::Address("192.0.2.7:3260".into()),
        permanently: true,
    };
    assert_eq!(redirect("old"), Some(expected));
    let refused = Spelling::Stmf.write(&items).unwrap_err();
    assert_eq!(refused.noun, "front_redirect");
}

#[test]
fn targets_and_units_keep_their_names_of_another_storage() {
    let text = "targets = [\"a\"]\na_iqn = \"iqn.2010-08.org.illumos:stmf-ha:A\"\nidentities = [\"i\"]\n\
        i_lu = \"tank/a\"\ni_lun = \"7\"\ni_serial = \"S 1\"\ni_naa = \"naa.5001405AABBCCDD0\"\n\
        i_block_size = \"4096\"\n";
    let items = Spelling::Toml.read(text.as_bytes()).unwrap();
    let file = HaFile::of(&items).unwrap();
    assert_eq!(
        file.targets[0].iscsi_name("tank"),
        "iqn.2010-08.org.illumos:stmf-ha:a"
    );
    let identity = HaIdentity {
        line: 3,
        volume: "tank/a".into(),
        lun: Some(7),
        serial: Some("S 1".into()),
        naa: Some(vec![0x50, 0x01, 0x40, 0x5a, 0xab, 0xbc, 0xcd, 0xd0]),
        block: Some(4096),
    };
    assert_eq!(file.identities, [identity]);
    // Nothing is lost on the way to another spelling.
    let refused = Spelling::Stmf.write(&items).unwrap_err();
    assert_eq!(refused.noun, "a_iqn");
}

#[test]
fn portals_have_the_port_of_iscsi() {
    let text = "target_portal_groups = [\"g\"]\ng_portals = [\"::1\", \"[::1]\", \"[::1]:5\", \"192.0.2.1\"]";
    let refused = Spelling::Toml.parse(text.as_bytes()).unwrap();
    assert_eq!(
        refused.portal_groups["g"].portals,
        ["[::1]:3260", "[::1]:3260", "[::1]:5", "192.0.2.1:3260"]
    );
}

/// Bytes that were changed anywhere: the fuzzer does more of it.
#[test]
fn nothing_makes_it_panic_and_what_is_understood_can_be_spelled() {
    let toml = Spelling::Toml.write(&Spelling::Stmf.read(SAMPLE.as_bytes()).unwrap());
    let toml = toml.unwrap();
    let mut state = 1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize
    };
    let mut understood = 0;
    for round in 0..4000 {
        let (spelling, text) = match round % 2 {
            0 => (Spelling::Toml, toml.as_bytes()),
            _ => (Spelling::Stmf, SAMPLE.as_bytes()),
        };
        let mut bytes = text.to_vec();
        for _ in 0..=next() % 3 {
            if bytes.is_empty() {
                break;
            }
            let at = next() % bytes.len();
            match next() % 4 {
                0 => drop(bytes.remove(at)),
                1 => bytes.insert(at, b" \n\"'=()[]#_$a0"[next() % 14]),
                2 => bytes.truncate(at.max(1)),
                _ => bytes[at] = (next() % 256) as u8,
            }
        }
        let Ok(items) = spelling.read(&bytes) else {
            continue;
        };
        let Ok(file) = HaFile::of(&items) else {
            continue;
        };
        understood += 1;
        for other in [Spelling::Toml, Spelling::Stmf] {
            let Ok(written) = other.write(&items) else {
                continue;
            };
            let again = other.parse(written.as_bytes());
            let again = again.unwrap_or_else(|refused| panic!("{refused}:\n{written}"));
            assert_eq!(again.portal_groups, file.portal_groups);
            assert_eq!(again.targets.len(), file.targets.len());
        }
    }
    assert!(understood > 0);
}
