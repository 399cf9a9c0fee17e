"""Operations that move values: views, joins, selections, pools, writes into a tensor, births, casts, readings."""

from __future__ import annotations

from itertools import chain

from .operation import Operation, rows

_X = "0:input"

_VIEWS = chain(
    rows(
        """
        view reshape view_as reshape_as expand expand_as broadcast_to permute transpose t adjoint movedim moveaxis
        swapaxes swapdims flatten ravel unflatten squeeze unsqueeze narrow narrow_copy select select_copy
        index_select gather take take_along_dim masked_select diagonal diag diag_embed diagflat tril triu unfold fold
        as_strided roll flip fliplr flipud rot90 repeat repeat_interleave tile
        clone contiguous detach cpu cuda xpu pin_memory share_memory_ requires_grad_ detach_
        __getitem__ pad constant_pad_nd pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle
        interpolate upsample affine_grid unique unique_consecutive to_dense coalesce
        avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
        adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d
        bernoulli poisson T mT H mH data grad
        """,
        "first",
        operands=_X,
    ),
    rows("lp_pool1d lp_pool2d lp_pool3d", "first-float", operands=_X),
    rows("one_hot", "int64", operands=_X),
    rows("multinomial", "int64", operands=_X),
    rows("embedding", "operand:1", operands="1:weight"),
    rows("embedding_bag", "operand:1", "raises", "1:weight 7:per_sample_weights"),
    rows("grid_sample", "first", "raises", "0:input 1:grid"),
    rows(
        "chunk split split_with_sizes tensor_split unbind unsafe_chunk hsplit vsplit dsplit",
        "tuple_of_first",
        operands=_X,
    ),
    rows("atleast_1d atleast_2d atleast_3d", "first", operands=_X),
)

_JOINS = chain(
    rows(
        "cat concat concatenate stack hstack vstack dstack row_stack column_stack block_diag",
        "promote",
        "promotes",
        "0:tensors*",
    ),
    rows("cartesian_prod", "promote", "raises", "0:tensors*"),
    rows("broadcast_tensors", "tuple_of_each", "none", "0:tensors*"),
    rows("meshgrid", "tuple_of_each", "raises", "0:tensors*"),
)

_INDEXED = "0:input 3:source"
_WRITES = chain(
    rows("masked_fill masked_fill_", "first", "keeps-destination", "0:input 2:value"),
    rows("index_fill index_fill_", "first", "keeps-destination", "0:input 3:value"),
    rows("copy_", "first", "keeps-destination", "0:input 1:src"),
    rows("__setitem__", "none", "keeps-destination", "0:input 2:value"),
    rows("fill_", "first", "keeps-destination", "0:input 1:value"),
    rows("index_put index_put_", "first", "raises-destination", "0:input 2:values"),
    rows(
        "index_add index_add_ index_copy index_copy_ index_reduce index_reduce_",
        "first",
        "raises-destination",
        _INDEXED,
    ),
    rows(
        "scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_",
        "first",
        "raises-destination",
        "0:input 3:src",
    ),
    rows("masked_scatter masked_scatter_", "first", "raises-destination", "0:input 2:source"),
    rows("put_", "first", "raises-destination", "0:input 2:source"),
    rows("slice_scatter select_scatter diagonal_scatter", "first", "keeps-destination", "0:input 1:src"),
    rows(
        """
        zero_ normal_ uniform_ bernoulli_ random_ exponential_ geometric_ log_normal_ cauchy_ fill_diagonal_
        t_ transpose_ squeeze_ unsqueeze_ tril_ triu_ resize_ swapaxes_
        """,
        "first",
        operands=_X,
    ),
    rows(
        """
        init.uniform_ init.normal_ init.trunc_normal_ init.constant_ init.ones_ init.zeros_ init.eye_ init.dirac_
        init.xavier_uniform_ init.xavier_normal_ init.kaiming_uniform_ init.kaiming_normal_ init.orthogonal_
        init.sparse_
        """,
        "first",
        operands="0:tensor",
    ),
)

_BIRTHS = chain(
    rows(
        """
        zeros ones empty rand randn linspace logspace eye empty_strided normal hann_window hamming_window
        blackman_window bartlett_window kaiser_window range
        """,
        "factory",
    ),
    rows("randint randperm tril_indices triu_indices", "factory:int64"),
    rows("arange full", "arguments"),
    rows("tensor asarray as_tensor", "data", zero_dim="literal"),
    rows("scalar_tensor", "factory", zero_dim="always"),
    rows("from_numpy", "numpy"),
    rows("zeros_like ones_like empty_like full_like rand_like randn_like randint_like", "like", operands=_X),
    rows("new_zeros new_ones new_full new_empty new_tensor", "like", operands=_X),
)

_CASTS = chain(
    *(
        rows(name, f"cast:{dtype}", operands=_X)
        for name, dtype in (
            ("float", "float32"),
            ("double", "float64"),
            ("half", "float16"),
            ("bfloat16", "bfloat16"),
            ("long", "int64"),
            ("int", "int32"),
            ("short", "int16"),
            ("char", "int8"),
            ("byte", "uint8"),
            ("bool", "bool"),
            ("cfloat", "complex64"),
            ("cdouble", "complex128"),
        )
    ),
    rows("to type", "to", operands=_X),
    rows("type_as", "type_as", operands=_X),
)

_READINGS = chain(
    rows("numpy __array__", "array", operands=_X),
    rows(
        """
        item tolist size shape dim ndim ndimension numel nelement stride storage_offset element_size data_ptr
        is_contiguous is_floating_point is_complex is_nonzero is_cuda is_leaf requires_grad device dtype get_device
        nbytes itemsize __len__ __bool__ __float__ __int__ __index__
        """,
        "scalar",
        operands=_X,
    ),
    rows("backward  retain_grad", "none", operands=_X),
)

STRUCTURE: tuple[Operation, ...] = (*_VIEWS, *_JOINS, *_WRITES, *_BIRTHS, *_CASTS, *_READINGS)
