# Saves the old values of each NIC before the first write, and reads back every write.
root=${HOCKET_MLX5:-/sys/kernel/debug/mlx5}
kept=${HOCKET_KEPT:-/var/lib/hocket/cc_params}

if [ $# -eq 0 ]; then
    echo "usage: $0 PCI_ADDRESS...; NICs of this host: $(ls "$root" 2>/dev/null | tr '\n' ' ')" >&2
    exit 2
fi
for nic in "$@"; do
    if [ ! -w "$root/$nic/cc_params/rp_time_reset" ]; then
        echo "$root/$nic/cc_params: cannot be written: no such mlx5 NIC, no debugfs, or not root" >&2
        exit 2
    fi
done
mkdir -p "$kept"
for nic in "$@"; do
    # Only before the first write: later, the NIC has Hocket's values. A script killed here leaves no half file.
    if [ ! -e "$kept/$nic" ]; then
        for file in "$root/$nic/cc_params"/rp_* "$root/$nic/cc_params"/np_min_*; do
            echo "${file##*/} $(cat "$file")"
        done > "$kept/$nic.new"
        mv "$kept/$nic.new" "$kept/$nic"
    fi
    echo "$writes" | while read -r name value; do
        file=$root/$nic/cc_params/$name
        # If the driver refuses the value, the check below reports more than `set -e` would.
        echo "$value" > "$file" || true
        if [ "$(cat "$file")" != "$value" ]; then
            echo "$file: is $(cat "$file") and not $value: the NIC refused it; undo.sh restores the old values" >&2
            exit 1
        fi
    done
done
