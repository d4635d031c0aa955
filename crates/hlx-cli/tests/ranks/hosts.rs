//! Ranks on several hosts made of network namespaces, under Open MPI over virtual cables: needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use hlx_core::testing::cases;

use crate::common::{Scratch, proof, text};
use crate::{long, wait_until};

const LONG: [&str; 8] = long("train.max_steps=400");

/// Hosts named `host-0`, `host-1`, ... with the addresses 10.91.7.1, 10.91.7.2, ..., each a network, a name
/// and mounts of its own, joined by a bridge in a further network. All is removed at the end.
struct Hosts {
    prefix: String,
    /// A process of each host, which its namespaces live by.
    keepers: Vec<Child>,
    folder: PathBuf,
}

fn shell(script: &str) -> Output {
    Command::new("sh")
        .args(["-c", script])
        .output()
        .expect("a shell")
}

fn succeeds(script: &str) {
    let output = shell(script);
    assert!(
        output.status.success(),
        "{script}: {}",
        text(&output.stderr)
    );
}

impl Hosts {
    /// Whether hosts can be made here, and Open MPI is installed.
    fn are_possible() -> bool {
        let checks = [
            (
                "mpirun.openmpi",
                "mpirun.openmpi --version",
                "it is not installed",
            ),
            (
                "hosts of network namespaces",
                "unshare -n -u -m true && ip -V && nsenter --version && \
                 ip netns add hlx-try && ip netns del hlx-try",
                "they need root, ip, unshare and nsenter",
            ),
        ];
        checks.into_iter().all(|(what, script, reason)| {
            let here = shell(script).status.success();
            if !here {
                hlx_core::testing::left_out(what, reason);
            }
            here
        })
    }

    fn new(n: usize, folder: &Path) -> Self {
        let prefix = format!("hlx{}", std::process::id());
        let mut hosts = Self {
            prefix: prefix.clone(),
            keepers: Vec::new(),
            folder: folder.to_owned(),
        };
        succeeds(&format!(
            "ip netns add {prefix}-net && ip -n {prefix}-net link add br0 type bridge && \
             ip -n {prefix}-net link set br0 up"
        ));
        for host in 0..n {
            let (name, address) = (format!("{prefix}-{host}"), Self::address(host));
            succeeds(&format!(
                "ip netns add {name} && ip -n {prefix}-net link add port{host} type veth \
                 peer name eth0 netns {name} && \
                 ip -n {prefix}-net link set port{host} master br0 up && \
                 ip -n {name} address add {address}/24 dev eth0 && \
                 ip -n {name} link set eth0 up && ip -n {name} link set lo up"
            ));
            let keeper = format!(
                "exec ip netns exec {name} unshare -u -m sh -c 'hostname host-{host} && \
                 touch {}/ready-{host} && exec sleep 600'",
                folder.display()
            );
            let keeper = Command::new("sh").args(["-c", &keeper]).spawn();
            hosts.keepers.push(keeper.expect("a keeper"));
            let ready = folder.join(format!("ready-{host}"));
            wait_until("a host", Duration::from_secs(10), || ready.exists());
        }
        hosts.write_agent();
        hosts
    }

    fn address(host: usize) -> String {
        format!("10.91.7.{}", host + 1)
    }

    /// What mpirun starts its daemons with, in the place of ssh.
    fn write_agent(&self) {
        let mut agent = String::from("#!/bin/sh\nhost=$1\nshift\ncase $host in\n");
        for (host, keeper) in self.keepers.iter().enumerate() {
            let (address, pid) = (Self::address(host), keeper.id());
            agent += &format!("{address}) exec nsenter -t {pid} -n -u -m sh -c \"$*\" ;;\n");
        }
        agent += "esac\n";
        fs::write(self.folder.join("agent"), agent).expect("writes");
        succeeds(&format!("chmod +x {}/agent", self.folder.display()));
        // Each rank's messages in a file of its own: a cut cable cuts the way to the launcher, too.
        let rank = "#!/bin/sh\nexec \"$@\" 2> \"$RANK_LOGS.$OMPI_COMM_WORLD_RANK\"\n";
        fs::write(self.folder.join("rank"), rank).expect("writes");
        succeeds(&format!("chmod +x {}/rank", self.folder.display()));
    }

    /// A command that runs on a host.
    fn on(&self, host: usize) -> Command {
        let mut command = Command::new("nsenter");
        let pid = self.keepers[host].id().to_string();
        command
            .args(["-t", &pid, "-n", "-u", "-m"])
            .current_dir(&self.folder);
        command
    }

    /// mpirun on host 0, with this many ranks on each host.
    fn mpirun(&self, ranks: &[usize], logs: &str, arguments: &[&str]) -> Command {
        let mut command = self.on(0);
        let list = ranks.iter().enumerate().filter(|(_, n)| **n > 0);
        let list: Vec<String> = list
            .map(|(host, n)| format!("{}:{n}", Self::address(host)))
            .collect();
        let n: usize = ranks.iter().sum();
        command
            .arg("--wd=.")
            .arg("mpirun.openmpi")
            .arg("--allow-run-as-root");
        command.args(["--host", &list.join(","), "-n", &n.to_string()]);
        for (name, value) in [
            (
                "plm_rsh_agent",
                self.folder.join("agent").to_str().expect("text"),
            ),
            ("pml", "ob1"),
            ("btl", "tcp,self"),
            ("btl_tcp_if_include", "10.91.7.0/24"),
            ("oob_tcp_if_include", "10.91.7.0/24"),
        ] {
            command.args(["--mca", name, value]);
        }
        for variable in [
            "HLX_DEVICE=cpu",
            &format!("RANK_LOGS={logs}"),
            "HLX_THREADS=1",
        ] {
            command.args(["-x", variable]);
        }
        command
            .arg(self.folder.join("rank"))
            .arg(env!("CARGO_BIN_EXE_hlx"))
            .args(arguments);
        hlx_core::testing::ran_on_cpu();
        command
    }

    /// Pulls or plugs the cable of a host.
    fn cable(&self, host: usize, state: &str) {
        succeeds(&format!(
            "ip -n {}-net link set port{host} {state}",
            self.prefix
        ));
    }

    /// The processes of a run's ranks.
    fn ranks(&self, out: &str) -> Vec<String> {
        let found = shell(&format!(
            "pgrep -f '^{} .*{out}'",
            env!("CARGO_BIN_EXE_hlx")
        ));
        text(&found.stdout).lines().map(str::to_owned).collect()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for keeper in &mut self.keepers {
            let _ = keeper.kill();
            let _ = keeper.wait();
        }
        // Those of a set-up that has failed half-way, too.
        let ours = format!("ip netns list | grep -o '^{}-[^ ]*'", self.prefix);
        for name in text(&shell(&ours).stdout).lines() {
            shell(&format!("ip netns del {name}"));
        }
    }
}

/// What each rank has written to its log.
fn logs(place: &Scratch, name: &str, n: usize) -> Vec<String> {
    let read = |rank| fs::read_to_string(place.join(&format!("{name}.{rank}"))).unwrap_or_default();
    (0..n).map(read).collect()
}

/// One digest on two and three hosts; a cable that is pulled ends all ranks, each half naming the lowest
/// rank of the other; half of the ranks end in the undisturbed digest; a run folder that one host does not
/// see is refused.
#[test]
fn ranks_on_several_hosts_leave_one_digest_and_notice_a_cut_cable() {
    if !Hosts::are_possible() {
        return;
    }
    let place = Scratch::new("ranks-hosts");
    let hosts = Hosts::new(3, &place.path);
    place.succeeds(&[&LONG[..], &["--out", "whole"]].concat());
    let whole = proof(&place.digests("whole"));
    for (name, ranks) in cases([("three", &[2, 1, 1][..]), ("two", &[2, 2])], 2) {
        let arguments = [&LONG[..], &["--out", name]].concat();
        let output = hosts
            .mpirun(ranks, name, &arguments)
            .output()
            .expect("starts");
        let said = (text(&output.stderr), logs(&place, name, 4));
        assert!(output.status.success(), "{said:?}");
        assert_eq!(proof(&place.digests(name)), whole, "{name}");
        let manifest = fs::read_to_string(place.join(&format!("{name}/run.json"))).expect("reads");
        assert!(manifest.contains("\"host-1\""), "{manifest}");
    }
    a_cut_cable(&place, &hosts);
    let resume = [&LONG[..], &["--out", "cut", "--resume"]].concat();
    let copied = format!("cp -r {0}/cut {0}/alone", place.path.display());
    succeeds(&copied);
    place.succeeds(&[&LONG[..], &["--out", "alone", "--resume"]].concat());
    assert_eq!(proof(&place.digests("alone")), whole);
    let output = hosts
        .mpirun(&[1, 0, 1], "resumed", &resume)
        .output()
        .expect("starts");
    assert!(output.status.success(), "{:?}", logs(&place, "resumed", 2));
    assert_eq!(proof(&place.digests("cut")), whole);
    a_folder_of_one_host(&place, &hosts);
}

fn a_cut_cable(place: &Scratch, hosts: &Hosts) {
    // Long enough that it is still running when the cable is pulled.
    let arguments = [&LONG[..], &["--out", "cut"]].concat();
    let mut command = hosts.mpirun(&[2, 2], "cut", &arguments);
    let mut launcher = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let reached = place.join("cut/checkpoints/step-000020");
    wait_until("a checkpoint", Duration::from_secs(60), || reached.exists());
    hosts.cable(1, "down");
    assert_eq!(hosts.ranks("cut").len(), 4, "the run has ended before");
    let limit = Duration::from_secs(30);
    wait_until("ranks end", limit, || hosts.ranks("cut").is_empty());
    hosts.cable(1, "up");
    let _ = launcher.kill();
    let _ = launcher.wait();
    let said = logs(place, "cut", 4);
    for (rank, said) in said.iter().enumerate() {
        let (lost, host) = if rank < 2 { (2, 1) } else { (0, 0) };
        let expected = format!("error: rank {lost} on host-{host}: no sign of life for 10 s\n");
        assert_eq!(*said, expected, "rank {rank}");
    }
}

/// On host 1 the run folder's parent is another file system.
fn a_folder_of_one_host(place: &Scratch, hosts: &Hosts) {
    fs::create_dir_all(place.join("runs")).expect("made");
    let mount = format!("mount -t tmpfs none {}", place.join("runs").display());
    let mounted = hosts
        .on(1)
        .args(["sh", "-c", &mount])
        .status()
        .expect("starts");
    assert!(mounted.success());
    let arguments = [&LONG[..], &["--out", "runs/run"]].concat();
    let output = hosts
        .mpirun(&[1, 1], "folder", &arguments)
        .output()
        .expect("starts");
    let said = logs(place, "folder", 2);
    assert_eq!(output.status.code(), Some(2), "{said:?}");
    assert_eq!(said[1], "", "one rank prints");
    assert!(
        said[0].starts_with("error: rank 1 on host-1: ") && said[0].lines().count() == 1,
        "{said:?}"
    );
}
