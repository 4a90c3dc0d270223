# Writes back what apply.sh found before its first write, and forgets it.
root=${HOCKET_MLX5:-/sys/kernel/debug/mlx5}
kept=${HOCKET_KEPT:-/var/lib/hocket/cc_params}

if [ $# -eq 0 ]; then
    echo "usage: $0 PCI_ADDRESS...; kept are: $(ls "$kept" 2>/dev/null | tr '\n' ' ')" >&2
    exit 2
fi
for nic in "$@"; do
    if [ ! -e "$kept/$nic" ]; then
        echo "$kept/$nic: nothing was kept of this NIC: nothing to undo" >&2
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
