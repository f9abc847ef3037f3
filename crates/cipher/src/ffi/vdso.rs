//! `getrandom` of the vDSO (Linux 6.11): fresh numbers of the kernel for a tenth of the price of a system call.
//!
//! The kernel maps the function into each process. It keeps a state for each thread in a page that the kernel drops
//! in a child. The kernel declares the state stale when its own is renewed, as in a virtual machine that was resumed.
//! So the numbers are as good as those of the system call. `lib/vdso/getrandom.c` of the kernel documents it.

use std::ffi::{CStr, c_uint, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Buffer, its length, flags; state, its length.
type GetrandomFn = unsafe extern "C" fn(*mut c_void, usize, c_uint, *mut c_void, usize) -> isize;

#[cfg(target_arch = "aarch64")]
const NAME: &CStr = c"__kernel_getrandom";
#[cfg(not(target_arch = "aarch64"))]
const NAME: &CStr = c"__vdso_getrandom";

/// A state never crosses pages, so a page of its own serves on every machine.
const STATE_MAX: usize = 4096;

/// `struct vgetrandom_opaque_params` of the kernel.
#[repr(C)]
#[derive(Default)]
struct StateParams {
    len: u32,
    protection: u32,
    flags: u32,
    reserved: [u32; 13],
}

struct Vdso {
    function: GetrandomFn,
    state: StateParams,
}

thread_local! {
    static STATE: Option<State> = State::new();
}

/// Fills the start of `out`, and returns how much. `None` if the vDSO does not do it: then the system call does.
pub(crate) fn getrandom(out: &mut [u8]) -> Option<usize> {
    STATE.try_with(|state| state.as_ref()?.fill(out)).ok()?
}

/// The state of a thread.
struct State {
    vdso: &'static Vdso,
    page: NonNull<c_void>,
}

impl State {
    fn new() -> Option<State> {
        static VDSO: OnceLock<Option<Vdso>> = OnceLock::new();
        let vdso = VDSO.get_or_init(Vdso::new).as_ref()?;
        let protection = ProtFlags::from_bits_retain(vdso.state.protection);
        let flags = MapFlags::from_bits_retain(vdso.state.flags);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let page = unsafe { mmap_anonymous(null_mut(), STATE_MAX, protection, flags) };
        let page = NonNull::new(page.ok()?)?;
        Some(State { vdso, page })
    }

    fn fill(&self, out: &mut [u8]) -> Option<usize> {
        let (state, state_len) = (self.page.as_ptr(), self.vdso.state.len as usize);
        let (buffer, len) = (out.as_mut_ptr().cast(), out.len());
        // SAFETY: the buffer is valid for writes of its length. The state is mapped as the function asked for, only this
        // thread uses it, and no signal handler draws numbers.
        let filled = unsafe { (self.vdso.function)(buffer, len, 0, state, state_len) };
        usize::try_from(filled).ok()
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping of this state, which nothing else refers to.
        let _ = unsafe { munmap(self.page.as_ptr(), STATE_MAX) };
    }
}

impl Vdso {
    fn new() -> Option<Vdso> {
        let function = find()?;
        let mut state = StateParams::default();
        // SAFETY: this length asks for the parameters of a state. Nothing else is written.
        let asked = unsafe { function(null_mut(), 0, 0, (&raw mut state).cast(), usize::MAX) };
        (asked == 0 && state.len as usize <= STATE_MAX).then_some(Vdso { function, state })
    }
}

/// Looks the function up in the ELF image that the kernel mapped.
fn find() -> Option<GetrandomFn> {
    // SAFETY: the address is null or that of a complete ELF image, mapped for the life of the process. All offsets are
    // from its own headers, and the function found by its name has this type.
    unsafe {
        let image = libc::getauxval(libc::AT_SYSINFO_EHDR) as *const u8;
        if image.is_null() {
            return None;
        }
        let header = &*image.cast::<libc::Elf64_Ehdr>();
        let segments = image
            .add(header.e_phoff as usize)
            .cast::<libc::Elf64_Phdr>();
        let segments = std::slice::from_raw_parts(segments, header.e_phnum.into());
        let of_type = |kind| segments.iter().find(move |segment| segment.p_type == kind);
        let loaded = of_type(libc::PT_LOAD)?;
        let at = |address: u64| image.add((address - loaded.p_vaddr + loaded.p_offset) as usize);

        let mut entry = at(of_type(libc::PT_DYNAMIC)?.p_vaddr).cast::<[u64; 2]>();
        let (mut symbols, mut names, mut hash) = (None, None, None);
        loop {
            let [tag, address] = *entry;
            match tag {
                DT_NULL => break,
                DT_HASH => hash = Some(at(address).cast::<[u32; 2]>()),
                DT_STRTAB => names = Some(at(address)),
                DT_SYMTAB => symbols = Some(at(address).cast::<libc::Elf64_Sym>()),
                _ => {}
            }
            entry = entry.add(1);
        }
        let [_, count] = *hash?;
        let symbols = std::slice::from_raw_parts(symbols?, count as usize);
        let names = names?;
        let is_wanted = |symbol: &&libc::Elf64_Sym| {
            let name = CStr::from_ptr(names.add(symbol.st_name as usize).cast());
            symbol.st_value != 0 && name == NAME
        };
        let address = at(symbols.iter().find(is_wanted)?.st_value);
        Some(std::mem::transmute::<*const u8, GetrandomFn>(address))
    }
}

/// Tags of the dynamic section (`elf.h`).
const DT_NULL: u64 = 0;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_if_the_kernel_has_it() {
        let Some(state) = State::new() else {
            assert!(find().is_none() || Vdso::new().is_none());
            return;
        };
        let (mut one, mut two) = ([0; 64], [0; 64]);
        assert_eq!(state.fill(&mut one), Some(64));
        assert_eq!(state.fill(&mut two), Some(64));
        assert!(one != [0; 64] && two != [0; 64] && one != two);
        let elsewhere = std::thread::spawn(|| {
            let mut three = [0; 64];
            assert_eq!(getrandom(&mut three), Some(64));
            three
        });
        let three = elsewhere.join().expect("thread");
        assert!(three != one && three != two);
    }
}
