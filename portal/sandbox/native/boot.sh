#!/bin/sh
# Process 1 of a sandbox node inside its fresh namespaces: puts the root together, then becomes the node's init.
# NODE_DIR, NODE_NAME, IMAGES_DIR, GPU_MINORS and CGROUPS ("name|mount options", one a word) come from portal.sandbox.node.
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin
root=$NODE_DIR/root
disk=$NODE_DIR/disk

hostname "$NODE_NAME"
mount -t tmpfs -o mode=755,size=64m tmpfs "$root"
cd "$root"
mkdir usr etc var root home opt srv dev proc sys run tmp mnt .old

# The programs and settings are the machine's, changes go to the node's own disk and survive a power cut.
overlay() { # MACHINE_DIR NAME TARGET
  mount -t overlay overlay -o "lowerdir=$1,upperdir=$disk/$2/upper,workdir=$disk/$2/work" "$3"
}
overlay /usr usr usr
overlay /etc etc etc
for d in var root home opt srv; do mount --bind "$disk/$d" "$d"; done
for d in dpkg apt; do [ ! -d "/var/lib/$d" ] || overlay "/var/lib/$d" "$d" "var/lib/$d"; done
for d in bin sbin lib lib32 lib64 libx32; do [ ! -L "/$d" ] || cp -P "/$d" .; done

mount -t tmpfs -o mode=755,size=16m tmpfs dev
while read -r name mode major minor; do mknod -m "$mode" "dev/$name" c "$major" "$minor"; done <<NODES
null 666 1 3
zero 666 1 5
full 666 1 7
random 666 1 8
urandom 666 1 9
tty 666 5 0
fuse 666 10 229
nvidiactl 666 195 255
nvidia-uvm 666 511 0
NODES
for minor in $GPU_MINORS; do mknod -m 666 "dev/nvidia$minor" c 195 "$minor"; done
mkdir dev/pts dev/shm dev/mqueue dev/net
mknod -m 666 dev/net/tun c 10 200
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t mqueue mqueue dev/mqueue
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr

mount -t proc -o nosuid,nodev,noexec proc proc
mount -t sysfs -o nosuid,nodev,noexec sysfs sys
mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
for entry in $CGROUPS; do
  if [ "$entry" = v2 ]; then
    mount -t cgroup2 cgroup2 sys/fs/cgroup
    continue
  fi
  mkdir "sys/fs/cgroup/${entry%%|*}"
  mount -t cgroup -o "${entry#*|}" cgroup "sys/fs/cgroup/${entry%%|*}"
done
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mkdir -m 755 run/sshd run/lock run/mock-nvml
mount --bind "$NODE_DIR/nvml" run/mock-nvml
mkdir -p var/lib/sandbox-images
mount --bind "$IMAGES_DIR" var/lib/sandbox-images
mount -o remount,bind,ro var/lib/sandbox-images

# What the kernel shows here belongs to the machine; the node has its own boot, memory and CPUs.
mount --bind "$NODE_DIR/boot_id" proc/sys/kernel/random/boot_id
for f in meminfo cpuinfo; do mount --bind "$NODE_DIR/$f" "proc/$f"; done
mount --bind "$NODE_DIR/cpu_online" sys/devices/system/cpu/online

pivot_root . .old
umount -l /.old
rmdir /.old
cd /
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
  /usr/lib/berth-sandbox/init </dev/null
