# What the tools in this folder share: they source it.
set -euo pipefail
HERE=$(dirname "$(realpath "$0")")
CACHE=$HOME/.cache/walras-machines

say() { echo "$(basename "$0"): $*" >&2; }

fail() {
  say "$@"
  exit 1
}

# Print QEMU's options for a topology in which each socket is a NUMA node.
machine() { # SMP MIB
  local sockets cores threads each cpus share
  eval "$(tr ',' '\n' <<<"$1")" # sockets=2,cores=4,threads=1
  cpus=$((cores * threads)) share=$(($2 / sockets))
  echo -n "-m $((share * sockets)) -smp $((sockets * cpus)),$1"
  for each in $(seq 0 $((sockets - 1))); do
    echo -n " -object memory-backend-ram,id=m$each,size=${share}M"
    echo -n " -numa node,nodeid=$each,memdev=m$each,cpus=$((each * cpus))-$(((each + 1) * cpus - 1))"
  done
  echo
}

# Print the comment at the head of the tool.
usage() {
  awk 'NR == 1 {next} !/^#/ {exit} {sub(/^# ?/, ""); print}' "$0"
  exit 2
}

# Install Debian's packages of programs that are missing: PROGRAM[=PACKAGE]...
needs() {
  local each missing=()
  for each; do command -v "${each%=*}" >/dev/null || missing+=("${each#*=}"); done
  ((${#missing[@]})) || return 0
  apt-get update -qq || true # one archive of several may be out of reach
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Fill a folder of the cache by a command, once, though several tools ask for it: FOLDER COMMAND...
once() {
  local folder=$1
  shift
  mkdir -p "$CACHE"
  (
    flock 9
    if [ ! -e "$folder/ready" ]; then
      rm -rf --one-file-system "$folder"
      mkdir -p "$folder"
      "$@"
      touch "$folder/ready"
    fi
  ) 9>"$folder.lock"
}

# Print the archive of Debian that apt uses here.
mirror() { apt-get indextargets --format '$(SITE)' | awk '/\/debian$/ {site = $0} END {print site}'; }

# Print this machine's release of Debian, whose Python is most likely that of the project's environment:
# what is compiled for one version runs on no other.
release() { (. /etc/os-release && echo "$VERSION_CODENAME"); }

# Make a small Debian: RELEASE FOLDER PACKAGE...
debian() {
  local release=$1 folder=$2
  shift 2
  needs debootstrap
  local include
  include=$(IFS=, && echo "$*")
  debootstrap --variant=minbase --include="$include" "$release" "$folder" "$(mirror)" >"$folder.log" 2>&1 ||
    { tail "$folder.log" >&2 && return 1; }
  rm -rf "$folder.log" "$folder"/var/cache/apt/archives/*.deb "$folder"/var/lib/apt/lists/* \
    "$folder"/usr/share/{doc,man,locale}
}
