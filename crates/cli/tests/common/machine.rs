//! A virtual machine with the Linux kernel of Debian, in which the program runs.

use super::*;

const ENGINE: &str = "../../../shared/engines/kernel-vm.sh";

/// The path of a program of the system.
pub fn program(name: &str) -> Option<PathBuf> {
    let dirs = ["/usr/bin", "/usr/sbin", "/sbin", "/bin"];
    let mut paths = dirs.iter().map(|dir| Path::new(dir).join(name));
    paths.find(|path| path.exists())
}

/// The directory that has `boot` and `lib/modules` of the kernel of the machine. `KROOT` names that of an unpacked package.
pub fn kernel_root() -> PathBuf {
    std::env::var_os("KROOT").map_or_else(|| "/".into(), PathBuf::from)
}

/// The files of kernel modules and of those that they need, in the order in which they are loaded.
fn modules(names: &[&str]) -> Option<Vec<PathBuf>> {
    let root = kernel_root();
    let kernels = fs::read_dir(root.join("lib/modules")).ok()?;
    let kernel = kernels
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .max()?;
    let mut files = Vec::new();
    for name in names {
        let output = Command::new(program("modprobe")?)
            .arg("-d")
            .arg(&root)
            .arg("-S")
            .arg(&kernel)
            .args(["--show-depends", name])
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        for line in listed.lines() {
            // After the path there may be options.
            let path = line.strip_prefix("insmod ");
            let path = path.and_then(|rest| Some(rest.split_whitespace().next()?.into()));
            files.extend(path.filter(|path| !files.contains(path)));
        }
    }
    Some(files)
}

/// The file of a module as the machine loads it: later kernels have compressed ones.
fn unpacked(module: PathBuf, place: &Place) -> PathBuf {
    if module.extension().is_none_or(|ending| ending != "xz") {
        return module;
    }
    let name = module.file_stem().unwrap_or_default().to_string_lossy();
    let output = Command::new("xz").arg("-dc").arg(&module).output();
    let path = place.path(&name);
    fs::write(&path, output.expect("xz").stdout).unwrap();
    path
}

/// Runs a shell script in a machine that has the program and these of the system, files in `/in`, and modules, which are loaded.
/// What the script prints; `None` without a machine, which is said.
pub fn run_in_machine(
    job: &str,
    programs: &[&str],
    files: &[&str],
    of_kernel: &[&str],
) -> Option<String> {
    let engine = Path::new(env!("CARGO_MANIFEST_DIR")).join(ENGINE);
    let mut needed = ["qemu-system-x86_64", "busybox", "cpio"]
        .iter()
        .chain(programs);
    let missing = needed.find(|name| program(name).is_none());
    let missing_file = files.iter().find(|path| !Path::new(path).exists());
    let modules = modules(of_kernel);
    let (Some(modules), true, None, None) = (modules, engine.exists(), missing, missing_file)
    else {
        println!("skipped: needs kernel-vm.sh, a kernel, and {missing:?}{missing_file:?}");
        return None;
    };
    let place = Place::new();
    let modules = { modules.into_iter() }.map(|module| unpacked(module, &place));
    let modules: Vec<PathBuf> = modules.collect();
    let mut binaries: Vec<PathBuf> = programs.iter().filter_map(|name| program(name)).collect();
    binaries.push(PROGRAM.into());
    let binaries: Vec<&str> = binaries.iter().filter_map(|path| path.to_str()).collect();
    let mut command = Command::new("bash");
    command.arg(engine);
    let files = files.iter().map(PathBuf::from);
    for file in files.chain(modules.iter().cloned()) {
        command.arg("-f").arg(file);
    }
    let load = modules.iter().map(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        format!("insmod /in/{name} 2>/dev/null\n")
    });
    let job = format!("{}{job}", load.collect::<String>());
    let run = command
        .args(["-m", "2048", "-t", "600", "sh", &job])
        .env("EXTRA_BINS", binaries.join(" "))
        .env("VMDIR", place.path("vm"))
        .output()
        .expect("bash");
    let told = String::from_utf8_lossy(&run.stdout).into_owned();
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{told}\n{errors}");
    Some(told)
}
