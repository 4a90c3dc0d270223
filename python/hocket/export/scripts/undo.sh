# Restores the values that apply.sh saved before its first write, and deletes the saved values.
root=${HOCKET_MLX5:-/sys/kernel/debug/mlx5}
kept=${HOCKET_KEPT:-/var/lib/hocket/cc_params}

if [ $# -eq 0 ]; then
    echo "usage: $0 PCI_ADDRESS...; NICs to undo: $(ls "$kept" 2>/dev/null | tr '\n' ' ')" >&2
    exit 2
fi
for nic in "$@"; do
    if [ ! -e "$kept/$nic" ]; then
        echo "$kept/$nic: no such file: nothing to undo for this NIC" >&2
        exit 2
    fi
    while read -r name value; do
        file=$root/$nic/cc_params/$name
        if [ "$(cat "$file")" != "$value" ]; then
            echo "$value" > "$file"
        fi
    done < "$kept/$nic"
    rm "$kept/$nic"
done
